internal import Cryptography
internal import Glibc
package import Logging
internal import Synchronization

/// The policy document on disk: read at the start, and again whenever it was changed.
///
/// A document that cannot be used changes nothing, so an operator's slip closes no gate and opens none. A changed one
/// must carry a higher version, because apps keep what they know of the version they have.
///
/// Where all instances have the same document elsewhere, the file is only what is offered to them: ``take(_:)`` says what
/// holds.
package final class PolicyFile: Sendable {
  /// What tells one state of the file from another.
  private struct Stamp: Equatable {
    var inode: UInt64
    var size: Int64
    var seconds: Int64
    var nanoseconds: Int64
  }

  private struct State {
    var policies: Policies
    var stamp: Stamp?
    /// What was taken from elsewhere, as it was written.
    var taken: [UInt8]?
    var isShared = false
  }

  private let path: String
  private let logger: Logger
  private let state: Mutex<State>
  /// One writer at a time, so that of two changes at once the later has to know the earlier.
  private let writing = Mutex(())
  /// False while no app is too old: then a call costs one load.
  private let hasMinimum: Atomic<Bool>
  /// Counts the documents that came into force.
  private let documents = Atomic<Int>(0)

  /// Reads the document. Without a file the built-in policies hold; with one that cannot be used the service does not
  /// start.
  package init(path: String, logger: Logger) throws(ConfigurationError) {
    self.path = path
    self.logger = logger
    let stamp = Self.stamp(path)
    let policies = stamp == nil ? .builtIn : try Self.read(path)
    state = Mutex(State(policies: policies, stamp: stamp))
    hasMinimum = Atomic(Self.hasMinimum(policies))
  }

  package var current: Policies { state.withLock { $0.policies } }

  /// Changes whenever `current` does.
  package var revision: Int { documents.load(ordering: .acquiring) }

  /// Nil while no app is too old.
  package var currentWithMinimum: Policies? {
    hasMinimum.load(ordering: .acquiring) ? current : nil
  }

  /// From now on the file changes nothing by itself.
  package func share() { state.withLock { $0.isShared = true } }

  /// What the file holds; nil when there is none or it cannot be read.
  package var offer: [UInt8]? { try? FileContents.read(path) }

  /// Puts a document in force that all instances have, whatever its version; the built-in policies where there is none.
  package func take(_ bytes: [UInt8]?) throws(PolicyError) {
    let policies = try bytes.map { bytes throws(PolicyError) in try Policies(parsing: bytes) } ?? .builtIn
    let isNew = state.withLock { state in
      defer { (state.policies, state.taken) = (policies, bytes) }
      return state.policies != policies
    }
    if isNew { isInForce(policies) }
  }

  /// The document that holds, as an operator writes it.
  package var document: String {
    if let taken = state.withLock({ $0.taken }) { return String(decoding: taken, as: UTF8.self) }
    if let bytes = try? FileContents.read(path), (try? Policies(parsing: bytes)) == current {
      return String(decoding: bytes, as: UTF8.self)
    }
    return String(decoding: current.json.encoded(), as: UTF8.self)
  }

  /// Puts a document in the place of the one that holds, in the file as well. Nil, or why it did not. Blocks on the
  /// disk.
  package func replace(_ bytes: [UInt8]) -> PolicyError? {
    writing.withLock { _ in
      do throws(PolicyError) {
        let policies = try Policies(parsing: bytes)
        let old = current
        guard policies.version > old.version else { throw PolicyError("version must be above \(old.version)") }
        do throws(SecretFileError) {
          try SecretFile.replace(path, bytes)
        } catch {
          throw PolicyError("the document cannot be written: \(error)")
        }
        refresh()
        return nil
      } catch {
        return error
      }
    }
  }

  /// Looks at the file until the task is cancelled.
  package func run() async {
    while !Task.isCancelled {
      try? await Task.sleep(for: Limits.policyInterval)
      refresh()
    }
  }

  /// Reads the document if it was changed since the last look.
  package func refresh() {
    if state.withLock({ $0.isShared }) { return }
    let stamp = Self.stamp(path)
    guard stamp != state.withLock({ $0.stamp }) else { return }
    state.withLock { $0.stamp = stamp }
    guard stamp != nil else {
      logger.warning("the policy document is gone; what it said goes on to hold", metadata: ["path": "\(path)"])
      return
    }
    let policies: Policies
    do throws(ConfigurationError) {
      policies = try Self.read(path)
    } catch {
      logger.error("the policy document is not used", metadata: ["cause": "\(error)"])
      return
    }
    let old = current
    guard policies != old else { return }
    guard policies.version > old.version else {
      logger.error(
        "the policy document is not used: a changed one needs a higher version",
        metadata: ["version": "\(policies.version)", "current": "\(old.version)"])
      return
    }
    state.withLock { $0.policies = policies }
    isInForce(policies)
  }

  private func isInForce(_ policies: Policies) {
    hasMinimum.store(Self.hasMinimum(policies), ordering: .releasing)
    documents.wrappingAdd(1, ordering: .releasing)
    logger.notice("the policies changed", metadata: ["version": "\(policies.version)"])
  }

  private static func hasMinimum(_ policies: Policies) -> Bool {
    policies.updates.contains { $0.minimum != nil }
  }

  private static func read(_ path: String) throws(ConfigurationError) -> Policies {
    let bytes = try FileContents.read(path)
    do throws(PolicyError) {
      return try Policies(parsing: bytes)
    } catch {
      throw .file(path: path, reason: error.description)
    }
  }

  private static func stamp(_ path: String) -> Stamp? {
    var status = stat()
    // The path is copied for the call, which fills the one struct it is given.
    guard unsafe stat(path, &status) == 0 else { return nil }
    return Stamp(
      inode: UInt64(status.st_ino), size: Int64(status.st_size), seconds: Int64(status.st_mtim.tv_sec),
      nanoseconds: Int64(status.st_mtim.tv_nsec))
  }
}
