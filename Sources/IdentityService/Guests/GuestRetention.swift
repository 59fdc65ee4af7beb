import GRPC
import LatchkeyModel
import Logging
import Storage

/// Forgets guests that nobody has used for long: those that own nothing, and those whose data was handed out in full.
/// A guest with data that nobody has is kept, however old.
package struct GuestRetention: Sendable {
  private let period: Duration
  private let subjects: any SubjectStore
  private let records: RecordKeeper?
  private let clock: any WallClock
  private let logger: Logger

  /// - Parameter records: nil where there is no record store: then nobody owns anything.
  package init(
    period: Duration, subjects: any SubjectStore, records: RecordKeeper?, clock: any WallClock, logger: Logger
  ) {
    self.period = period
    self.subjects = subjects
    self.records = records
    self.clock = clock
    self.logger = logger
  }

  package struct Sweep: Sendable, Equatable {
    package var deleted = 0
    package var kept = 0
  }

  /// Looks at every guest that was last seen before the retention's time. Stops early when the record store cannot say
  /// who owns what.
  ///
  /// - Parameter givesUpData: also deletes guests with data that nobody has. For when there is no room for more guests:
  ///   who never comes back must not keep out who comes.
  @discardableResult
  package func sweep(givesUpData: Bool = false) async -> Sweep {
    var sweep = Sweep()
    var last: UnusedGuest?
    do {
      while !Task.isCancelled {
        let cutoff = clock.now() - period
        let guests = try await subjects.unusedGuests(before: cutoff, after: last, limit: Limits.retentionPage)
        for guest in guests where !Task.isCancelled {
          if try await forget(guest, before: cutoff, givesUpData) { sweep.deleted += 1 } else { sweep.kept += 1 }
        }
        guard guests.count == Limits.retentionPage else { break }
        last = guests.last
      }
    } catch {
      logger.warning("the retention was broken off; it goes on later", metadata: ["cause": "\(error)"])
    }
    if sweep.deleted > 0 {
      logger.notice(
        "unused guests were deleted", metadata: ["deleted": "\(sweep.deleted)", "kept": "\(sweep.kept)"])
    }
    return sweep
  }

  private func forget(_ guest: UnusedGuest, before cutoff: LatchkeyModel.Timestamp, _ givesUpData: Bool) async throws
    -> Bool
  {
    if let records, !givesUpData {
      let owned = try await records.describe(guest.id)
      if owned.count > 0, guest.exportedVersion.map({ $0 < owned.version }) ?? true { return false }
    }
    let now = clock.now()
    // It may be used between the question and the deletion, which therefore looks again.
    let outcome = try await subjects.delete(
      SubjectDeletion(subject: guest.id, authority: .unused(before: cutoff), now: now, purgeDueAt: now))
    if case .deleted = outcome { return true }
    return false
  }
}
