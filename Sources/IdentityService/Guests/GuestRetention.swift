import Domain
import GRPC
import LatchkeyModel
import Logging
import Storage

/// Forgets guests that nobody has used for long: those that own nothing, and those whose data was handed out in full.
/// A guest with data that nobody has is kept, however old, as long as there is room for the data of others.
package struct GuestRetention: Surrounded {
  private let period: Duration
  private let domain: IdentityDomain
  private let records: RecordKeeper?
  private let purger: RecordPurger?
  let surroundings: Surroundings

  /// - Parameters:
  ///   - records: nil where there is no record store: then nobody owns anything.
  ///   - purger: removes what is stored there.
  package init(
    period: Duration, domain: IdentityDomain, records: RecordKeeper?, purger: RecordPurger?,
    surroundings: Surroundings
  ) {
    self.period = period
    self.domain = domain
    self.records = records
    self.purger = purger
    self.surroundings = surroundings
  }

  package struct Sweep: Sendable, Equatable {
    package var deleted = 0
    package var kept = 0
    /// Not every guest was looked at: what was to be known of one was not.
    package var isBrokenOff = false
  }

  /// Looks at every guest that was last seen before the retention's time, unless another instance does. Stops early when
  /// the record store cannot say who owns what.
  ///
  /// One at a time: two who both make room would each take a guest for the room of one.
  ///
  /// - Parameter room: deletes as many as it takes until there is some, those first that were used last, whether somebody
  ///   has their data or not: who never comes back must not keep out who comes. Nil deletes all whose data is not lost by it.
  @discardableResult
  package func sweep(givingUpDataFor room: GuestRoom? = nil) async -> Sweep {
    var sweep = Sweep()
    var last: UnusedGuest?
    let lease = UpkeepLease(
      "guest retention", holder: OpaqueIDValue(from: surroundings.random), duration: Limits.retentionLease)
    do {
      guard try await domain.perform(TakeUpkeep(lease, at: clock.now())) else {
        sweep.isBrokenOff = true
        return sweep
      }
      // Counted by who has the chore: another may have made room just before.
      let count = try await room?.countExcess()
      while !Task.isCancelled, count.map({ sweep.deleted < $0 }) ?? true {
        try await stay(lease)
        var renewed = clock.now()
        let cutoff = renewed - period
        let guests = try await domain.look(UnusedGuests(before: cutoff, after: last, limit: Limits.retentionPage))
        for guest in guests where !Task.isCancelled && count.map({ sweep.deleted < $0 }) ?? true {
          if clock.now() >= renewed + Limits.retentionRenewal {
            try await stay(lease)
            renewed = clock.now()
          }
          switch try await forget(guest, before: cutoff, givesUpData: count != nil, by: lease) {
          case .kept: sweep.kept += 1
          case .deleted: sweep.deleted += 1
          case .waits:
            sweep.deleted += 1
            throw RoomUnknown()
          }
        }
        guard guests.count == Limits.retentionPage else { break }
        last = guests.last
      }
    } catch {
      sweep.isBrokenOff = true
      logger.warning("the retention was broken off; it goes on later", metadata: ["cause": "\(error)"])
    }
    // Also when this task is cancelled: the next start goes on at once.
    await Task.detached { [domain] in _ = try? await domain.perform(LeaveUpkeep(lease)) }.value
    if sweep.deleted > 0 {
      logger.notice(
        "unused guests were deleted", metadata: ["deleted": "\(sweep.deleted)", "kept": "\(sweep.kept)"])
    }
    return sweep
  }

  private enum Fate {
    case kept
    case deleted
    /// It is deleted, and its records, whose room is needed, are not purged yet.
    case waits
  }

  /// Whether another guest has to make room is not known before the records of the one before are gone.
  private struct RoomUnknown: Error, CustomStringConvertible {
    var description: String { "the records of a deleted guest are not purged yet" }
  }

  /// Another instance sweeps by now: this one stood still.
  private struct Overtaken: Error, CustomStringConvertible {
    var description: String { "another instance goes on with it" }
  }

  /// Keeps the chore while nobody is deleted.
  private func stay(_ lease: UpkeepLease) async throws {
    guard try await domain.perform(RenewUpkeep(lease, at: clock.now())) else { throw Overtaken() }
  }

  private func forget(
    _ guest: UnusedGuest, before cutoff: LatchkeyModel.Timestamp, givesUpData: Bool, by lease: UpkeepLease
  ) async throws -> Fate {
    var makesRoom = false
    if let records, !givesUpData {
      let owned = try await records.describe(guest.id)
      if !owned.guestsAreFull, owned.count > 0, guest.exportedVersion.map({ $0 < owned.version }) ?? true {
        return .kept
      }
      makesRoom = owned.guestsAreFull && owned.count > 0
    }
    let now = clock.now()
    // It may be used between the question and the deletion, which therefore looks again.
    let outcome = try await domain.perform(
      DeleteSubject(
        subject: guest.id, authority: .unused(before: cutoff, by: lease), now: now,
        purgeDueAt: makesRoom ? now + Limits.purgeHandover : now))
    if outcome == .overtaken { throw Overtaken() }
    guard case .deleted = outcome else { return .kept }
    if makesRoom, let purger, await !purger.purge(guest.id) { return .waits }
    return .deleted
  }
}
