import LatchkeyModel
import Storage

/// Begins to take back what is done, while its time lasts.
package struct UndoMigration: MigrationCommand {
  package static let name = "undo a migration"

  package var id: MigrationID
  package var now: Timestamp

  package init(_ id: MigrationID, at now: Timestamp) {
    self.id = id
    self.now = now
  }

  package enum Outcome: Sendable, Equatable {
    case begun
    /// It is being taken back, or was.
    case already
    /// It is under way, or failed.
    case notDone
    /// Its time is over.
    case expired
    /// The guest or the account was deleted.
    case deleted
    case unknown
  }

  package func decide(in rows: some MigrationTransaction) async throws(StorageError) -> Outcome {
    guard var stored = try await rows.lockWithOwners(id) else { return .unknown }
    switch stored.migration.state {
    case .recalling, .restoring, .returning, .undone: return .already
    case .freezing, .counting, .applying, .verifying, .switching, .purging, .undoing, .telling, .failed:
      return .notDone
    case .done: break
    }
    for subject in [stored.migration.guest, stored.migration.target] {
      // Locked: whose records are being deleted is not to have them back beside that.
      if try await rows.owners.find(subject)?.isDeleted == true { return .deleted }
    }
    guard stored.migration.undoAsked(at: now) != nil else { return .expired }
    try await stored.migration.mark(isMigrated: false, in: rows)
    // It is in the queue again.
    (stored.runAt, stored.claim, stored.failures, stored.hindrance) = (now, nil, 0, nil)
    try await rows.migrations.change(stored)
    return .begun
  }
}

extension StoredMigration {
  /// Whether what taking it back needs is to be forgotten.
  func isOver(at now: Timestamp) -> Bool {
    guard case .done = migration.state else { return isForgetting }
    return isForgetting || migration.undoUntil.map { $0 <= now } ?? false
  }

  /// It is the account's for good from here on; what that needed is forgotten little by little.
  mutating func giveUpUndo() {
    migration.undoForgotten()
    isForgetting = true
  }

  /// Has the account's merges that were done first be its own for good, so that what is kept of all, with this one, is at
  /// most `bytes`. This one itself is given up only when it was done before and keeps more than that alone.
  mutating func makeRoom(within bytes: Int, in rows: some MigrationTransaction) async throws(StorageError) {
    var left = bytes - keptBytes
    if left < 0, case .done = migration.state { giveUpUndo() }
    for var other in try await rows.migrations.undoable(into: migration.target) where other.migration.id != migration.id
    {
      left -= other.keptBytes
      guard left < 0, case .done = other.migration.state else { continue }
      guard let locked = try await rows.migrations.lock(other.migration.id) else { continue }
      other = locked
      other.giveUpUndo()
      try await rows.migrations.change(other)
    }
  }
}

/// Forgets a bounded number of rows that only taking back would need, of migrations whose time for that is over. Returns
/// how many.
package struct ForgetUndo: MigrationCommand {
  package static let name = "forget what undoing needs"

  package var now: Timestamp
  package var limit: Int

  package init(at now: Timestamp, limit: Int) {
    self.now = now
    self.limit = limit
  }

  package func decide(in rows: some MigrationTransaction) async throws(StorageError) -> Int {
    guard let found = try await rows.migrations.findForgetting(at: now) else { return 0 }
    let id = found.migration.id
    try await rows.lockOwners([found.migration.target])
    // Somebody else may have forgotten it meanwhile.
    guard var stored = try await rows.migrations.lock(id), stored.isOver(at: now) else { return 1 }
    // First of all it cannot be taken back any more, whatever the clock says later.
    stored.migration.undoForgotten()
    var forgotten = try await rows.merged.remove(of: id, limit: limit)
    if forgotten < limit { forgotten += try await rows.moved.remove(of: id, limit: limit - forgotten) }
    stored.isForgetting = forgotten == limit
    if !stored.isForgetting {
      forgotten += 1
      stored.keptBytes = 0
    }
    try await rows.migrations.change(stored)
    return forgotten
  }
}
