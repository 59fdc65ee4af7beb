import LatchkeyModel
import Storage

/// A change of what identity knows, decided inside one transaction: what somebody asks for, with all that the service has
/// verified about it before.
///
/// It is a value that knows no engine. `decide` reads straight down: it locks what it is about, refuses before it changes
/// anything, because an outcome is committed whatever it says, then changes rows and says what came of it.
package protocol IdentityCommand: Sendable {
  associatedtype Outcome: Sendable

  /// What errors and logs call it.
  static var name: String { get }

  /// What it is about, if it asks for a few rows by their keys and seldom fails: see `IdentityOperation`.
  var rows: [String]? { get }

  /// The network address that it comes from, for the record; empty where it is not told.
  var address: String { get }

  /// Depends on the rows and on its own values alone, and awaits nothing but `rows`: the same on every engine, and again
  /// when an engine has to begin anew.
  ///
  /// - Parameter changes: what it does to sessions, and what else of it goes on record.
  func decide(
    in rows: some IdentityTransaction, noting changes: inout SessionChanges
  ) async throws(StorageError) -> Outcome
}

extension IdentityCommand {
  package var rows: [String]? { nil }
  package var address: String { "" }
}

/// The identity service's rules over an engine: runs commands, keeps the audit log with them, and tells who listens.
package struct IdentityDomain: Sendable {
  private let storage: any IdentityStorage
  private let audit: AuditChain
  private let listeners: [any SessionListener]

  package init(_ storage: any IdentityStorage, audit: AuditChain, listeners: [any SessionListener] = []) {
    self.storage = storage
    self.audit = audit
    self.listeners = listeners
  }

  /// Runs a command as one durable change, with the security events that it is; then tells the listeners of the sessions
  /// that began and ended.
  package func perform<Command: IdentityCommand>(
    _ command: Command
  ) async throws(StorageError) -> Command.Outcome {
    let (outcome, changes) = try await storage.write(Recorded(command: command, audit: audit))
    if !changes.isEmpty {
      for listener in listeners { listener.sessionsChanged(changes) }
    }
    return outcome
  }

  /// Looks something up.
  package func look<Query: IdentityOperation>(_ query: Query) async throws(StorageError) -> Query.Outcome {
    try await storage.read(query)
  }
}

/// A command together with its entries in the audit log.
private struct Recorded<Command: IdentityCommand>: IdentityOperation {
  let command: Command
  let audit: AuditChain

  static var name: String { Command.name }
  var rows: [String]? { command.rows }

  func run(
    in rows: some IdentityTransaction
  ) async throws(StorageError) -> (outcome: Command.Outcome, changes: SessionChanges) {
    var changes = SessionChanges()
    changes.address = command.address
    let outcome = try await command.decide(in: rows, noting: &changes)
    try await audit.append(changes.auditNotes, to: rows.audit)
    let news = changes.news
    if !news.isEmpty { try await rows.tell(news) }
    return (outcome, changes)
  }
}
