internal import Cryptography
internal import Glibc
package import LatchkeyModel
package import Logging
internal import Synchronization

/// Which proofs of possession no earlier process of this service can have taken, by the second in which they were made.
///
/// The proofs that were taken are remembered in memory alone, so that after a crash nobody knows them. The disk holds
/// one number instead: the second up to which they were taken without a nonce. Where it ended before, the next process
/// asks for a nonce of its own (RFC 9449 section 8), which no proof of an earlier one can hold. The number runs ahead
/// of the clock, so that no call waits for the disk.
package final class ProofHorizon: Sendable {
  private let path: String
  private let clock: any WallClock
  private let logger: Logger
  /// Proofs of this second and before may have been taken by an earlier process.
  private let before: Int64
  /// Proofs of this second and before are said on disk to be taken.
  private let reach: Mutex<Int64>

  /// Reads what the process before left, and says on disk that proofs are taken from now on.
  ///
  /// A disk that cannot be written to does not keep the service from starting: every proof then needs a nonce.
  package init(path: String, clock: any WallClock, logger: Logger) {
    self.path = path
    self.clock = clock
    self.logger = logger
    do throws(SecretFileError) {
      // What is not a number was cut off while it was written: as if the process had ended just now.
      before = Int64(String(decoding: try SecretFile.read(path), as: UTF8.self)) ?? Self.ahead(clock)
    } catch {
      if case .system(_, _, ENOENT) = error { before = .min } else { before = Self.ahead(clock) }
    }
    reach = Mutex(before)
    extend()
  }

  /// Whether a proof made in this second needs no nonce.
  func covers(_ issued: Int64) -> Bool {
    issued > before && issued <= reach.withLock { $0 }
  }

  /// Keeps the disk ahead of the clock.
  package func run() async {
    while !Task.isCancelled {
      try? await Task.sleep(for: Limits.proofHorizonInterval)
      extend()
    }
  }

  private func extend() {
    let next = Self.ahead(clock)
    do throws(SecretFileError) {
      try SecretFile.replace(path, Array(String(max(next, before)).utf8))
      reach.withLock { $0 = next }
    } catch {
      logger.warning(
        "proofs of possession need a nonce until the disk can be written to", metadata: ["error": "\(error)"])
    }
  }

  /// As far ahead as a client's clock may be, and until the next write but one.
  private static func ahead(_ clock: any WallClock) -> Int64 {
    (clock.now() + Limits.proofAge + Limits.proofHorizonInterval * 2).secondsSinceEpoch
  }
}
