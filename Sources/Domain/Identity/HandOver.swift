import LatchkeyModel
import Storage

// What becomes of a wish to move a guest's data into an account, on its way to the migrator. The wish is made by a sign-in.

/// Notes the migrator's plan before it is started, so that starting it again after a crash is the same request.
package struct NotePlan: IdentityCommand {
  package static let name = "note a merge's plan"

  package var plan: PendingMerge.Plan?
  package var merge: MergeID

  package init(_ plan: PendingMerge.Plan?, of merge: MergeID) {
    self.plan = plan
    self.merge = merge
  }

  package func decide(
    in rows: some IdentityTransaction, noting changes: inout SessionChanges
  ) async throws(StorageError) {
    guard let merge = try await rows.merges.lock(merge), merge.state == .wanted else { return }
    try await rows.merges.change(merge.id, plan: plan)
  }
}

/// The migrator has taken the wish on.
package struct StartMerge: IdentityCommand {
  package static let name = "start a merge"

  package var merge: MergeID
  package var migration: String
  package var now: Timestamp

  package init(_ merge: MergeID, as migration: String, at now: Timestamp) {
    self.merge = merge
    self.migration = migration
    self.now = now
  }

  package func decide(
    in rows: some IdentityTransaction, noting changes: inout SessionChanges
  ) async throws(StorageError) {
    guard var merge = try await rows.merges.lock(merge), merge.state != .abandoned else { return }
    // Completion may have come first, from a migrator faster than its own answer; the number is kept either way.
    if merge.state == .wanted { merge.state = .started }
    merge.migration = migration
    merge.lastError = nil
    try await rows.merges.change(merge, at: now)
  }
}

/// The migrator did not take it; it is offered again not before `next`.
package struct PostponeMerge: IdentityCommand {
  package static let name = "postpone a merge"

  package var merge: MergeID
  package var reason: String
  package var next: Timestamp

  package init(_ merge: MergeID, because reason: String, until next: Timestamp) {
    self.merge = merge
    self.reason = reason
    self.next = next
  }

  package func decide(
    in rows: some IdentityTransaction, noting changes: inout SessionChanges
  ) async throws(StorageError) {
    guard var merge = try await rows.merges.lock(merge), merge.state == .wanted else { return }
    merge.attempts += 1
    merge.lastError = reason
    try await rows.merges.change(merge, dueAt: next)
  }
}

/// Whoever took it to hand it over ends before that is known: it is due again at once. The same may be offered twice.
package struct ReturnMerge: IdentityCommand {
  package static let name = "give a merge back"

  package var merge: MergeID
  package var now: Timestamp

  package init(_ merge: MergeID, at now: Timestamp) {
    self.merge = merge
    self.now = now
  }

  package func decide(
    in rows: some IdentityTransaction, noting changes: inout SessionChanges
  ) async throws(StorageError) {
    guard let merge = try await rows.merges.lock(merge), merge.state == .wanted else { return }
    try await rows.merges.change(merge, dueAt: now)
  }
}

/// The migrator will never take it: nobody offers it any more.
package struct AbandonMerge: IdentityCommand {
  package static let name = "abandon a merge"

  package var merge: MergeID
  package var reason: String
  package var now: Timestamp

  package init(_ merge: MergeID, because reason: String, at now: Timestamp) {
    self.merge = merge
    self.reason = reason
    self.now = now
  }

  package func decide(
    in rows: some IdentityTransaction, noting changes: inout SessionChanges
  ) async throws(StorageError) -> Bool {
    guard var merge = try await rows.merges.lock(merge), merge.state == .wanted else { return false }
    try await changes.giveUp(&merge, because: reason, at: now, in: rows)
    return true
  }
}

/// The migrator has given it up: the guest is one like any other again. False when no such merge of the guest was open.
/// Idempotent, also for a migrator that stood still: what its migration was not started for goes on.
package struct FailMerge: IdentityCommand {
  package static let name = "fail a merge"

  package var migration: String
  package var guest: SubjectID
  package var target: SubjectID
  /// What the migration was started with: for one that identity began the id of its wish. Nil from a migrator of an older
  /// release, which does not say it.
  package var key: String?
  package var reason: String
  package var now: Timestamp

  package init(
    _ migration: String, of guest: SubjectID, into target: SubjectID, startedWith key: String?,
    because reason: String, at now: Timestamp
  ) {
    self.migration = migration
    self.guest = guest
    self.target = target
    self.key = key
    self.reason = reason
    self.now = now
  }

  package func decide(
    in rows: some IdentityTransaction, noting changes: inout SessionChanges
  ) async throws(StorageError) -> Bool {
    // One that was taken back failed long ago: what is open now is another one.
    if try await rows.mergedGuests.isRecalled(migration, of: guest) { return false }
    guard let open = try await rows.merges.open(of: guest), var merge = try await rows.merges.lock(open.id),
      merge.state.isOpen, merge.target == target, isOf(merge)
    else { return false }
    merge.migration = migration
    try await changes.giveUp(&merge, because: reason, at: now, in: rows)
    return true
  }

  /// By its number or, when the answer with the number was lost or is yet to come, by what it was started with: a wish
  /// without a number may be a later one, of whoever signed in again.
  private func isOf(_ merge: PendingMerge) -> Bool {
    if let number = merge.migration { return number == migration }
    return key.map { $0 == merge.id.description } ?? true
  }
}

extension SessionChanges {
  fileprivate mutating func giveUp(
    _ merge: inout PendingMerge, because reason: String, at now: Timestamp, in rows: some IdentityTransaction
  ) async throws(StorageError) {
    merge.state = .abandoned
    merge.lastError = reason
    try await rows.merges.change(merge, at: now)
    failedMerges.append(FailedMerge(target: merge.target, migration: merge.migration, at: now))
    notes.append(
      AuditNote(.mergeAbandoned, at: now, subject: merge.guest, detail: "into \(merge.target): \(reason)"))
  }
}

/// A wish by its id.
package struct FindMerge: IdentityOperation {
  package static let name = "find a merge"

  package var merge: MergeID

  package init(_ merge: MergeID) {
    self.merge = merge
  }

  package func run(in rows: some IdentityTransaction) async throws(StorageError) -> PendingMerge? {
    try await rows.merges.find(merge)
  }
}

/// Takes wishes that are due, for as long as handing one over may take: nobody else offers them meanwhile, and when that
/// never comes about they are due again.
package struct LeaseMerges: IdentityCommand {
  package static let name = "take merges to hand over"

  package var now: Timestamp
  package var end: Timestamp
  package var limit: Int

  package init(at now: Timestamp, until end: Timestamp, limit: Int) {
    self.now = now
    self.end = end
    self.limit = limit
  }

  package func decide(
    in rows: some IdentityTransaction, noting changes: inout SessionChanges
  ) async throws(StorageError) -> [PendingMerge] {
    let due = try await rows.merges.lockDue(at: now, limit: limit)
    for merge in due { try await rows.merges.change(merge, dueAt: end) }
    return due
  }
}

/// Wishes to be handed to the migrator now, oldest first.
package struct DueMerges: IdentityOperation {
  package static let name = "find merges to hand over"

  package var now: Timestamp
  package var limit: Int

  package init(at now: Timestamp, limit: Int) {
    self.now = now
    self.limit = limit
  }

  package func run(in rows: some IdentityTransaction) async throws(StorageError) -> [PendingMerge] {
    try await rows.merges.due(at: now, limit: limit)
  }
}
