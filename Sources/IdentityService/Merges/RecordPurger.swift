import GRPC
import LatchkeyModel
import Logging
import Storage

/// Removes the records of subjects that were deleted. The wish is written down with the deletion, so none is lost when
/// either service dies; purging again does no harm.
package struct RecordPurger: Sendable {
  private let records: RecordKeeper
  private let subjects: any SubjectStore
  private let clock: any WallClock
  private let logger: Logger

  package init(records: RecordKeeper, subjects: any SubjectStore, clock: any WallClock, logger: Logger) {
    self.records = records
    self.subjects = subjects
    self.clock = clock
    self.logger = logger
  }

  /// Whether the records are gone now. If not, they are asked for again.
  func purge(_ subject: SubjectID, attempts: Int64 = 0) async -> Bool {
    do {
      try await records.purge(subject)
      try await subjects.purged(subject)
      return true
    } catch let error as RPCError {
      let wait = min(Limits.purgeRetryFirst * (1 << min(attempts, 12)), Limits.purgeRetryLongest)
      logger.warning(
        "records of a deleted subject could not be purged; it is tried again",
        metadata: ["sub": "\(subject)", "status": "\(error.code): \(error.message)"])
      try? await subjects.postponePurge(of: subject, until: clock.now() + wait)
    } catch {
      logger.error("a purge could not be written down", metadata: ["sub": "\(subject)", "cause": "\(error)"])
    }
    return false
  }

  /// Purges what is due, again and again, until the task is cancelled.
  package func run() async {
    while !Task.isCancelled {
      if await purgeDue() < Limits.purgesPerRound { try? await Task.sleep(for: Limits.purgeRound) }
    }
  }

  /// Returns how many were due.
  @discardableResult
  package func purgeDue() async -> Int {
    let due = (try? await subjects.duePurges(at: clock.now(), limit: Limits.purgesPerRound)) ?? []
    for one in due where !Task.isCancelled { _ = await purge(one.subject, attempts: one.attempts) }
    return due.count
  }
}
