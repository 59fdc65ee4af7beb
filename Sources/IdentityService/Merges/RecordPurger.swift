import Domain
import GRPC
import LatchkeyModel
import Logging
import Storage

/// Removes the records of subjects that were deleted. The wish is written down with the deletion, so none is lost when
/// either service dies; purging again does no harm.
package struct RecordPurger: Sendable {
  private let records: RecordKeeper
  private let domain: IdentityDomain
  private let clock: any WallClock
  private let logger: Logger

  package init(records: RecordKeeper, domain: IdentityDomain, clock: any WallClock, logger: Logger) {
    self.records = records
    self.domain = domain
    self.clock = clock
    self.logger = logger
  }

  /// Whether the records are gone now. If not, they are asked for again.
  func purge(_ subject: SubjectID, attempts: Int64 = 0) async -> Bool {
    do {
      try await records.purge(subject)
      try await domain.perform(SettlePurge(of: subject, .done))
      return true
    } catch _ where Task.isCancelled {
      // This instance ends: another one, or its next start, goes on at once.
      await Task.detached { [domain, clock] in
        _ = try? await domain.perform(SettlePurge(of: subject, .givenBack(at: clock.now())))
      }.value
    } catch let error as RPCError {
      let wait = min(Limits.purgeRetryFirst * (1 << min(attempts, 12)), Limits.purgeRetryLongest)
      logger.warning(
        "records of a deleted subject could not be purged; it is tried again",
        metadata: ["sub": "\(subject)", "status": "\(error.code): \(error.message)"])
      try? await domain.perform(SettlePurge(of: subject, .postponed(until: clock.now() + wait)))
    } catch {
      logger.error("a purge could not be written down", metadata: ["sub": "\(subject)", "cause": "\(error)"])
    }
    return false
  }

  /// Purges what is due, again and again, until the task is cancelled.
  package func run() async {
    while !Task.isCancelled {
      await purgeDue()
      try? await Task.sleep(for: Limits.purgeRound)
    }
  }

  /// Purges whatever is due, and returns how many that were.
  @discardableResult
  package func purgeDue() async -> Int {
    var count = 0
    while !Task.isCancelled, let due = await takeDue() {
      _ = await purge(due.subject, attempts: due.attempts)
      count += 1
    }
    return count
  }

  /// One that is due is this instance's for a while. One alone, so that one that dies keeps no others waiting.
  private func takeDue() async -> PendingPurge? {
    let now = clock.now()
    // A look is cheap, and mostly there is nothing.
    guard (try? await domain.look(DuePurges(at: now, limit: 1)))?.isEmpty == false else { return nil }
    return try? await domain.perform(LeasePurges(at: now, until: now + Limits.purgeLease, limit: 1)).first
  }
}
