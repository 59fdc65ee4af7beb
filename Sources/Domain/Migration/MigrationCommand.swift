import LatchkeyModel
import Storage
import Synchronization

/// A change of what the migrator knows, decided inside one transaction. As an ``IdentityCommand`` it is a value that knows
/// no engine, reads straight down, and refuses before it changes anything.
package protocol MigrationCommand: Sendable {
  associatedtype Outcome: Sendable

  /// What errors and logs call it.
  static var name: String { get }

  /// Depends on the rows and on its own values alone, and awaits nothing but `rows`: the same on every engine, and again
  /// when an engine has to begin anew.
  func decide(in rows: some MigrationTransaction) async throws(StorageError) -> Outcome
}

/// The migrator's rules over an engine.
package struct MigrationDomain: Sendable {
  private let storage: any MigrationStorage
  /// How long what is done can be taken back. Meanwhile what a guest had is kept. Zero for not at all.
  private let undoWindow: Duration
  /// How much is kept for that of each account.
  private let undoBytes: Int
  private let checks = MigrationChecks()

  package init(_ storage: any MigrationStorage, undoWindow: Duration, undoBytes: Int? = nil) {
    self.storage = storage
    self.undoWindow = undoWindow
    self.undoBytes = undoBytes ?? Limits.undoBytes
  }

  /// Whether other processes may have claimed migrations.
  package var isShared: Bool { storage.isShared }

  /// Runs a command as one durable change.
  package func perform<Command: MigrationCommand>(
    _ command: Command
  ) async throws(StorageError) -> Command.Outcome {
    try await storage.write(Decided(command: command))
  }

  /// Looks something up.
  package func look<Query: MigrationOperation>(_ query: Query) async throws(StorageError) -> Query.Outcome {
    try await storage.read(query)
  }

  /// Does `action` and stores its effects and the migration's new state together; keeps the claim. Nil when the claim is
  /// lost or the migration stands elsewhere: nothing was changed. A bounded part of APPLY, VERIFY and PURGE is done at a
  /// time. For SWITCH the effect outside the store has happened before.
  package func take(
    _ action: Migration.Action, of id: MigrationID, lease: JobLease, at now: Timestamp
  ) async throws(StorageError) -> Migration? {
    var step = TakeStep(action, of: id, lease: lease, undoWindow: undoWindow, undoBytes: undoBytes, at: now)
    guard action == .verify else { return try await perform(step) }
    // The writer serves everyone, and so does each reader: a large guest is looked at in stretches.
    guard let check = try await look(CheckStretch(id, after: checks.take(id))) else { return nil }
    step.check = check
    let moved = try await perform(step)
    if moved != nil && !check.isOver { checks.keep(check, of: id) }
    return moved
  }
}

/// A command as an engine runs it.
private struct Decided<Command: MigrationCommand>: MigrationOperation {
  let command: Command

  static var name: String { Command.name }

  func run(in rows: some MigrationTransaction) async throws(StorageError) -> Command.Outcome {
    try await command.decide(in: rows)
  }
}

/// The checks that go on, in memory alone: the guest is frozen and all of it merged, so what was seen stays true unless
/// the migration says otherwise, and whoever finds none begins at the first record.
private final class MigrationChecks: Sendable {
  private let checks = Mutex<[MigrationID: MigrationCheck]>([:])

  func take(_ id: MigrationID) -> MigrationCheck {
    checks.withLock { $0.removeValue(forKey: id) } ?? MigrationCheck()
  }

  func keep(_ check: MigrationCheck, of id: MigrationID) { checks.withLock { $0[id] = check } }
}
