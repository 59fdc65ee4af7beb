/// An engine that keeps what the identity service knows. It stores rows and runs operations in transactions; what the rows
/// mean, and which change follows from which, is the domain's.
///
/// To add one, make a folder beside `StorageSQLite` and `StorageMemory` with
/// 1. a type for each protocol in `Rows`: the statements of one table;
/// 2. an ``IdentityTransaction`` that holds them;
/// 3. this protocol, in two methods that begin a transaction, run the operation in it, and commit;
/// 4. a line in `Tests/StorageConformance/Engines.swift`, whose suites say what is wrong or missing.
package protocol IdentityStorage: Sendable {
  /// Runs an operation as one change, and returns once that is durable. Whatever it throws, nothing of it is stored. May
  /// be answered together with others, in any order, but never in the midst of another: see ``IdentityTransaction``.
  func write<Operation: IdentityOperation>(
    _ operation: Operation
  ) async throws(StorageError) -> Operation.Outcome

  /// Runs an operation that changes nothing on one state of the rows.
  func read<Operation: IdentityOperation>(
    _ operation: Operation
  ) async throws(StorageError) -> Operation.Outcome
}

/// Something to be done in one transaction.
package protocol IdentityOperation: Sendable {
  associatedtype Outcome: Sendable

  /// What the engine calls it in its errors.
  static var name: String { get }

  /// Awaits the transaction's methods, one after the other, and nothing else. An engine may call it again from the
  /// beginning when the transaction could not be committed: it depends on the rows and on its own values alone.
  func run(in rows: some IdentityTransaction) async throws(StorageError) -> Outcome
}

/// One transaction over identity's rows, table by table.
///
/// The methods mean the same everywhere: `find` looks a row up by its key, `all` those of somebody; `lock` is `find` of a
/// row that the operation is about: from then to its end no other operation finds, makes or changes that row, there or
/// not. `insert` makes a row and says whether there was room for it; `change` and `remove` say what there was to change.
/// A row that must be there and is not, or a second one with the same key, is a ``StorageError``.
///
/// An operation sees its own changes. It locks what it is about before it decides; what else it looks up may be a moment
/// old. Engines that run one operation after the other have nothing to do for `lock`.
package protocol IdentityTransaction {
  associatedtype Subjects: SubjectRows
  associatedtype Devices: DeviceRows
  associatedtype Sessions: SessionRows
  associatedtype Identities: IdentityRows
  associatedtype Challenges: ChallengeRows
  associatedtype Codes: OneTimeCodeRows
  associatedtype Unlocks: UnlockRows
  associatedtype Tickets: LinkTicketRows
  associatedtype Lineage: LineageRows
  associatedtype Merges: MergeRows
  associatedtype Sources: SignInSourceRows
  associatedtype Replays: SignInReplayRows
  associatedtype Transfers: TransferRows
  associatedtype Grants: QRGrantRows
  associatedtype Audit: AuditRows

  /// Guests and accounts.
  var subjects: Subjects { get }
  /// What is known of each device key.
  var devices: Devices { get }
  var sessions: Sessions { get }
  /// What leads to accounts, with its secrets.
  var identities: Identities { get }
  /// Challenges that were answered.
  var challenges: Challenges { get }
  var codes: Codes { get }
  /// What unlocks accounts on single devices.
  var unlocks: Unlocks { get }
  var tickets: Tickets { get }
  /// What came of what.
  var lineage: Lineage { get }
  /// Wishes to move a guest's data into an account.
  var merges: Merges { get }
  /// Networks that accounts were signed in from.
  var sources: Sources { get }
  /// What sign-ins were answered.
  var replays: Replays { get }
  /// Offers to move to another device.
  var transfers: Transfers { get }
  /// What QR codes began.
  var grants: Grants { get }
  var audit: Audit { get }
}
