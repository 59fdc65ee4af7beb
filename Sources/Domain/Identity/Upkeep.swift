import LatchkeyModel
import Storage

/// The right to do a chore of the upkeep for a while: one instance at a time has it. Each change that is made by it looks
/// again, in its own transaction, whether it still holds: who was paused and comes back changes nothing.
package struct UpkeepLease: Sendable, Hashable {
  package let chore: String
  /// Random for each turn.
  package let holder: OpaqueIDValue
  /// How long it keeps others away without a change.
  package let duration: Duration

  package init(_ chore: String, holder: OpaqueIDValue, duration: Duration) {
    self.chore = chore
    self.holder = holder
    self.duration = duration
  }

  fileprivate func claim(at now: Timestamp) -> UpkeepClaim { UpkeepClaim(holder: holder, until: now + duration) }

  /// Far more than clocks of instances are apart.
  private static let clockDistance: Duration = .seconds(60)

  /// Whether it keeps others away. One that seems to last for longer than leases do, by more than clocks are apart, was
  /// taken before the clock was set back.
  fileprivate func isOutdone(by claim: UpkeepClaim?, at now: Timestamp) -> Bool {
    claim.map { $0.holder != holder && $0.until > now && $0.until <= now + duration + Self.clockDistance } ?? false
  }
}

extension IdentityTransaction {
  /// Whether nobody else has taken the chore on since; if so the lease is renewed, also when its time was over.
  func renew(_ lease: UpkeepLease, at now: Timestamp) async throws(StorageError) -> Bool {
    guard try await upkeep.lock(lease.chore)?.holder == lease.holder else { return false }
    try await upkeep.put(lease.claim(at: now), lease.chore)
    return true
  }
}

/// Takes a chore on unless another instance is at it, which says false.
package struct TakeUpkeep: IdentityCommand {
  package static let name = "take a chore on"

  package var lease: UpkeepLease
  package var now: Timestamp

  package init(_ lease: UpkeepLease, at now: Timestamp) {
    self.lease = lease
    self.now = now
  }

  package func decide(
    in rows: some IdentityTransaction, noting changes: inout SessionChanges
  ) async throws(StorageError) -> Bool {
    if lease.isOutdone(by: try await rows.upkeep.lock(lease.chore), at: now) { return false }
    try await rows.upkeep.put(lease.claim(at: now), lease.chore)
    return true
  }
}

/// Says that whoever has a chore is still at it. False: another has it by now.
package struct RenewUpkeep: IdentityCommand {
  package static let name = "stay at a chore"

  package var lease: UpkeepLease
  package var now: Timestamp

  package init(_ lease: UpkeepLease, at now: Timestamp) {
    self.lease = lease
    self.now = now
  }

  package func decide(
    in rows: some IdentityTransaction, noting changes: inout SessionChanges
  ) async throws(StorageError) -> Bool {
    try await rows.renew(lease, at: now)
  }
}

/// A chore is done, or given up: whoever comes next may take it on.
package struct LeaveUpkeep: IdentityCommand {
  package static let name = "leave a chore"

  package var lease: UpkeepLease

  package init(_ lease: UpkeepLease) {
    self.lease = lease
  }

  package func decide(
    in rows: some IdentityTransaction, noting changes: inout SessionChanges
  ) async throws(StorageError) {
    guard try await rows.upkeep.lock(lease.chore)?.holder == lease.holder else { return }
    try await rows.upkeep.remove(lease.chore)
  }
}
