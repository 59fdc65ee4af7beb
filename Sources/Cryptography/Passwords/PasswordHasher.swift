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
  ///   - holder: see ``WorkerThreads/init(threads:capacity:longestWait:now:holder:)``.
  package convenience init(
    parameters: Argon2Parameters = .standard,
    threads: Int = 1,
    queue: Int = Limits.passwordQueue,
    holder: @escaping @Sendable () -> WorkerThreads.Holder? = { nil }
  ) {
    self.init(
      parameters: parameters,
      workers: WorkerThreads(
        threads: threads, capacity: queue, longestWait: Limits.passwordWait, holder: holder)
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
    return try await run(in: place) {
      let salt = SecureRandom.bytes(Self.saltByteCount)
      return Self.hash(password, salt, parameters, count: Self.hashByteCount).map {
        PHCString(parameters, salt: salt, hash: $0).text
      }
    }
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
    guard let stored = PHCString(stored) else { throw .malformedHash }
    return try await run(in: place) {
      Self.hash(password, stored.salt, stored.parameters, count: stored.hash.count).map {
        ConstantTime.equals($0, stored.hash)
      }
    }
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

  private static func hash(
    _ password: [UInt8], _ salt: [UInt8], _ parameters: Argon2Parameters, count: Int
  ) -> Result<[UInt8], PasswordHasherError> {
    var context = unsafe argon2_context()
    unsafe context.t_cost = parameters.passes
    unsafe context.m_cost = parameters.memoryKiB
    unsafe context.lanes = parameters.lanes
    // One lane after the other, on this thread: the same hash.
    unsafe context.threads = 1
    unsafe context.version = ARGON2_VERSION_13.rawValue
    unsafe HashMemory.provide(for: &context)
    var hash = [UInt8](repeating: 0, count: count)
    // Reads the two arrays within their counts, writes nothing there without a flag that says so, and writes `count` bytes;
    // it keeps none of the pointers.
    let status = unsafe password.withUnsafeBufferPointer { password in
      unsafe salt.withUnsafeBufferPointer { salt in
        unsafe hash.withUnsafeMutableBufferPointer { hash in
          unsafe (context.pwd, context.pwdlen) = (.init(mutating: password.baseAddress), UInt32(password.count))
          unsafe (context.salt, context.saltlen) = (.init(mutating: salt.baseAddress), UInt32(salt.count))
          unsafe (context.out, context.outlen) = (hash.baseAddress, UInt32(hash.count))
          return unsafe argon2id_ctx(&context)
        }
      }
    }
    return status == ARGON2_OK.rawValue ? .success(hash) : .failure(.system)
  }
}
