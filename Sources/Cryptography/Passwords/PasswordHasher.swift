import CArgon2

/// Hashes passwords with Argon2id on threads of its own, and compares them with stored hashes.
///
/// Stored form: PHC strings, so that the cost can be raised while old hashes still verify. A queue that is full answers
/// at once with ``PasswordHasherError/overloaded``, as does one in which a caller would wait beyond its deadline, and a
/// caller whose task is cancelled leaves it. Every error means that the password was compared with nothing. Call
/// ``stop()`` when done.
package final class PasswordHasher: Sendable {
  package let parameters: Argon2Parameters
  private let workers: WorkerThreads
  private let dummy: String

  static let saltByteCount = 16
  static let hashByteCount = 32

  /// - Parameters:
  ///   - threads: hashes computed at once; each takes a core and the parameters' memory.
  ///   - queue: hashes that may wait.
  package convenience init(
    parameters: Argon2Parameters = .standard,
    threads: Int = 1,
    queue: Int = Limits.passwordQueue
  ) {
    self.init(
      parameters: parameters,
      workers: WorkerThreads(threads: threads, capacity: queue, longestWait: Limits.passwordWait)
    )
  }

  /// A hasher on threads that it stops when it ends.
  package init(parameters: Argon2Parameters, workers: WorkerThreads) {
    precondition(parameters.areUsable, "the configuration checks the parameters")
    self.parameters = parameters
    self.workers = workers
    dummy = PHCString.dummy(parameters)
  }

  deinit {
    workers.stop()
  }

  /// The PHC string to store, with a fresh salt.
  ///
  /// - Parameter place: from ``place(until:)``; nil for one without a deadline.
  package func hash(
    _ password: [UInt8], in place: WorkerThreads.Place? = nil
  ) async throws(PasswordHasherError) -> String {
    try Self.checkLength(password)
    let parameters = parameters
    return try await run(in: place) { Self.encoded(password, parameters) }
  }

  package func hash(
    _ password: String, in place: WorkerThreads.Place? = nil
  ) async throws(PasswordHasherError) -> String {
    try await hash(Array(password.utf8), in: place)
  }

  /// Whether `password` is the one that `stored` was made of.
  package func verify(
    _ password: [UInt8], against stored: String, in place: WorkerThreads.Place? = nil
  ) async throws(PasswordHasherError) -> Bool {
    try Self.checkLength(password)
    guard PHCString(stored) != nil else { throw .malformedHash }
    return try await run(in: place) { Self.matches(password, stored) }
  }

  package func verify(
    _ password: String, against stored: String, in place: WorkerThreads.Place? = nil
  ) async throws(PasswordHasherError) -> Bool {
    try await verify(Array(password.utf8), against: stored, in: place)
  }

  /// Takes the time of a comparison that fails: for an account that does not exist (R25).
  package func verifyDummy(
    _ password: [UInt8], in place: WorkerThreads.Place? = nil
  ) async throws(PasswordHasherError) {
    _ = try await verify(password, against: dummy, in: place)
  }

  package func verifyDummy(
    _ password: String, in place: WorkerThreads.Place? = nil
  ) async throws(PasswordHasherError) {
    try await verifyDummy(Array(password.utf8), in: place)
  }

  /// Whether `stored` was made at another cost than today's: hash again at the next successful sign-in.
  package func needsRehash(_ stored: String) -> Bool {
    PHCString(stored)?.parameters != parameters
  }

  /// Throws when there is no ``place(until:)`` just now, so that callers hear it before they do anything else.
  package func check(until deadline: ContinuousClock.Instant?) throws(PasswordHasherError) {
    do throws(WorkerThreads.Refusal) {
      try workers.check(until: deadline)
    } catch {
      throw PasswordHasherError(error)
    }
  }

  /// A place for one hash that is wanted by `deadline`, which nobody takes meanwhile. Whoever lets go of it unused gives
  /// it back.
  package func place(until deadline: ContinuousClock.Instant?) throws(PasswordHasherError) -> WorkerThreads.Place {
    do throws(WorkerThreads.Refusal) {
      return try workers.reserve(until: deadline)
    } catch {
      throw PasswordHasherError(error)
    }
  }

  /// Ends the threads once what is queued is done.
  package func stop() {
    workers.stop()
  }

  private static func checkLength(_ password: [UInt8]) throws(PasswordHasherError) {
    guard password.count <= Limits.passwordBytes else { throw .passwordTooLong }
  }

  private func run<Value: Sendable>(
    in place: WorkerThreads.Place?,
    _ work: @escaping @Sendable () -> Result<Value, PasswordHasherError>
  ) async throws(PasswordHasherError) -> Value {
    let result: Result<Value, PasswordHasherError>
    do throws(WorkerThreads.Refusal) {
      result = try await workers.run(in: place, work)
    } catch {
      throw PasswordHasherError(error)
    }
    return try result.get()
  }

  private static func encoded(
    _ password: [UInt8],
    _ parameters: Argon2Parameters
  ) -> Result<String, PasswordHasherError> {
    let salt = SecureRandom.bytes(saltByteCount)
    var text = [CChar](repeating: 0, count: Limits.phcBytes)
    // Reads the two arrays within their counts and writes at most `text.count` bytes, NUL included.
    let status = unsafe password.withUnsafeBytes { password in
      unsafe salt.withUnsafeBytes { salt in
        unsafe text.withUnsafeMutableBufferPointer { text in
          unsafe argon2id_hash_encoded(
            parameters.passes,
            parameters.memoryKiB,
            parameters.lanes,
            password.baseAddress,
            password.count,
            salt.baseAddress,
            salt.count,
            hashByteCount,
            text.baseAddress,
            text.count
          )
        }
      }
    }
    guard status == ARGON2_OK.rawValue else { return .failure(.system) }
    return .success(String(decoding: text.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self))
  }

  private static func matches(_ password: [UInt8], _ stored: String) -> Result<Bool, PasswordHasherError> {
    // Reads `password` within its count and `stored` up to its NUL. libargon2 compares in constant time.
    let status = unsafe password.withUnsafeBytes { password in
      unsafe stored.withCString { stored in
        unsafe argon2id_verify(stored, password.baseAddress, password.count)
      }
    }
    switch status {
    case ARGON2_OK.rawValue: return .success(true)
    case ARGON2_VERIFY_MISMATCH.rawValue: return .success(false)
    case ARGON2_MEMORY_ALLOCATION_ERROR.rawValue: return .failure(.system)
    default: return .failure(.malformedHash)
    }
  }
}
