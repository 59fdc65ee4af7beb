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
  /// be answered together with others, in any order, but never in the midst of another that is about the same: see
  /// ``IdentityTransaction`` and ``IdentityOperation/rows``.
  func write<Operation: IdentityOperation>(
    _ operation: Operation
  ) async throws(StorageError) -> Operation.Outcome

  /// Runs an operation that changes nothing on one state of the rows.
  func read<Operation: IdentityOperation>(
    _ operation: Operation
  ) async throws(StorageError) -> Operation.Outcome

  /// What other processes end in the same rows; nil where there can be none.
  var sharedEndings: (any SharedEndings)? { get }

  /// The keys that all processes sign with; nil where one process has them, in files of its own.
  var sharedSigningKeys: (any SharedSigningKeys)? { get }

  /// What operators write for all processes; nil where it is in files of one.
  var sharedDocuments: (any SharedDocuments)? { get }
}

extension IdentityStorage {
  /// One process has the rows, and knows of each end by having made it.
  package var sharedEndings: (any SharedEndings)? { nil }
  package var sharedSigningKeys: (any SharedSigningKeys)? { nil }
  package var sharedDocuments: (any SharedDocuments)? { nil }
}

/// Something to be done in one transaction.
package protocol IdentityOperation: Sendable {
  associatedtype Outcome: Sendable

  /// What the engine calls it in its errors.
  static var name: String { get }

  /// What it is about, if it asks for a few rows by their keys and seldom fails: an engine may do it side by side with others
  /// that are about other rows, in one transaction, where a row's lock keeps none of them out: one that two such operations both
  /// lock or change must be among these rows, or what they do must be the same as one after the other. Nil for what is to have a
  /// transaction of its own.
  var rows: [String]? { get }

  /// Awaits the transaction's methods, one after the other, and nothing else. An engine may call it again from the
  /// beginning when the transaction could not be committed: it depends on the rows and on its own values alone.
  func run(in rows: some IdentityTransaction) async throws(StorageError) -> Outcome
}

extension IdentityOperation {
  package var rows: [String]? { nil }
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
///
/// Locks are taken in one order, so that operations wait for each other and never in a circle:
/// 1. what names the request itself: the key of a sign-in's replay, a QR session's grant, a chore of the upkeep;
/// 2. subjects, a guest before accounts, and those in the order of their ids;
/// 3. their sessions;
/// 4. the rest: devices, credentials, codes, tickets, transfers, challenges;
/// 5. the end of a chain of the audit log, when everything else is decided.
///
/// Whatever begins or ends sessions or credentials of somebody, or follows what came of what, holds the subject: a list of
/// somebody's rows that is read, ended or removed is whole then. A session says whose it is without a lock, because that
/// never changes. Only a refresh takes its session alone, which is all that it renews; one that finds a stolen token
/// begins anew with the subject. An operation that finds, once it holds a row, that it had to hold another one before throws
/// `superseded`, and is run again by the engine.
package protocol IdentityTransaction {
  associatedtype Subjects: SubjectRows
  associatedtype Devices: DeviceRows
  associatedtype Sessions: SessionRows
  associatedtype Identities: IdentityRows
  associatedtype Challenges: ChallengeRows
  associatedtype Codes: OneTimeCodeRows
  associatedtype Attempts: AttemptRows
  associatedtype Unlocks: UnlockRows
  associatedtype Tickets: LinkTicketRows
  associatedtype Lineage: LineageRows
  associatedtype Merges: MergeRows
  associatedtype MergedGuests: MergedGuestRows
  associatedtype Sources: SignInSourceRows
  associatedtype Replays: SignInReplayRows
  associatedtype Transfers: TransferRows
  associatedtype Grants: QRGrantRows
  associatedtype Guides: GuideRows
  associatedtype Purges: PurgeRows
  associatedtype Notices: NoticeRows
  associatedtype Upkeep: UpkeepRows
  associatedtype Audit: AuditRows

  /// Whether other instances write the same rows, by clocks of their own.
  var isShared: Bool { get }

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
  /// Tries that were not right.
  var attempts: Attempts { get }
  /// What unlocks accounts on single devices.
  var unlocks: Unlocks { get }
  var tickets: Tickets { get }
  /// What came of what.
  var lineage: Lineage { get }
  /// Wishes to move a guest's data into an account.
  var merges: Merges { get }
  /// Where guests were that became parts of accounts.
  var mergedGuests: MergedGuests { get }
  /// Networks that accounts were signed in from.
  var sources: Sources { get }
  /// What sign-ins were answered.
  var replays: Replays { get }
  /// Offers to move to another device.
  var transfers: Transfers { get }
  /// What QR codes began.
  var grants: Grants { get }
  /// How far subjects have come in guides.
  var guides: Guides { get }
  /// Whose records are yet to go.
  var purges: Purges { get }
  /// What owners are yet to be told.
  var notices: Notices { get }
  /// What one instance at a time does.
  var upkeep: Upkeep { get }
  var audit: Audit { get }

  /// Writes down for other processes what those who watch there want to know (``SessionChanges/news``). The last that an
  /// operation does.
  func tell(_ news: SessionChanges) async throws(StorageError)
}

extension IdentityTransaction {
  /// There is nobody else where one process has the rows.
  package func tell(_ news: SessionChanges) async throws(StorageError) {}
}
