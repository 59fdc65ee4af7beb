import Domain
import LatchkeyModel
import ServiceRuntime
import Storage

/// The bounds of this module, each with the reason for its number.
enum Limits {
  /// Records in one message of PutRecords. The message is one transaction, and 1000 rows hold the writer for some 15 ms.
  static let recordsPerMessage = 1000

  /// Bytes of one message of PutRecords: room for several records of the largest value, in a message that is still
  /// small beside the 4 MiB that stock clients send by default.
  static let putMessageBytes = 1 << 20

  /// What a subject may store by PutRecords unless configured otherwise. Guests cost nothing to make, so they may fill
  /// less: a phone that is used for months without an account stays far below 20,000 entries of some hundred bytes,
  /// while the 60 guests that a network gets in an hour (`guest.perHour`) hold at most 1 GiB. An account is a person's
  /// for years, and what it may hold is still read back within minutes.
  static let guestBounds = RecordBounds(records: 20_000, bytes: 16 << 20, collections: collectionsPerSubject)
  static let accountBounds = RecordBounds(records: 200_000, bytes: 256 << 20, collections: collectionsPerSubject)

  /// What all guests may store together unless configured otherwise: strangers fill it, so it is bounded in bytes and not
  /// by how many they are (R54). Half a million phones with 16 KiB each; what is on the disk is up to three times as much.
  static let guestTotal = 8 << 30

  /// How full that is when guests whom nobody has used for long go although nobody has their data, in tenths: before
  /// anybody is refused.
  static let guestTotalTenths = 9

  /// Collections of a subject: an app has tens of them, and a list of all fits into a message and a transaction.
  static let collectionsPerSubject = 256

  /// Records in a page unless the caller says otherwise, and at most.
  static let defaultPageSize = 100
  static let largestPageSize = 1000

  /// Bytes of values in a page. Stock clients refuse messages above 4 MiB; half of it leaves room for names and coding.
  static let pageBytes = 2 << 20

  /// Records of a deleted subject that are removed in one transaction: some milliseconds of the writer's time.
  static let purgeRecords = 1000

  /// How long a plan can be started. Long enough for a person to read a summary and decide.
  static let planLifetime: Duration = .seconds(600)

  /// Plans that an account may ask for in a minute. A plan counts all that two subjects have, on one of the store's two
  /// readers; a person who signs in asks for one, and again when they change their mind. What a network asks for in all is
  /// bounded by the accounts that it may register.
  static let plansPerMinute = 12

  /// Overrides that a plan may carry; an app has tens of collections, not hundreds.
  static let policyOverrides = 64

  /// An idempotency key is a UUID or the like.
  static let idempotencyKeyBytes = 128

  /// A plan's digest, in text: SHA-256 in base64url.
  static let digestCharacters = 43

  /// How long a migration can be taken back unless configured otherwise: long enough to notice that the wrong account was
  /// signed in to. What guests had is kept meanwhile. Identity remembers where a guest was for 30 days.
  static let undoWindow: Duration = .seconds(7 * 86_400)
  static let longestUndoWindow: Duration = .seconds(29 * 86_400)

  /// How often what only taking back needs is forgotten when its time is over, and how many rows at once: some
  /// milliseconds of the writer's time.
  static let forgetInterval: Duration = .seconds(60)
  static let forgetRows = 1000

  /// Migrations that move at the same time. Their work meets in the one writer; a second worker goes on while the first
  /// waits for identity.
  static let workers = 2

  /// How long a worker stays with one migration while others wait: some chunks. With as many large migrations under way as
  /// there are turns in a second, for each worker, a small one still begins within a second.
  static let turn: Duration = .milliseconds(100)

  /// How long a claim holds without progress: how long a migration waits whose instance died. Every chunk and step renews
  /// it; a chunk takes milliseconds, and SWITCH at most `switchPatience`.
  static let lease: Duration = .seconds(15)

  /// How long identity may take to answer SWITCH before it is asked again.
  static let switchPatience: Duration = .seconds(10)

  /// The wait after a step failed doubles from the first to the longest: at once when a service restarts, gently when it
  /// is gone for an hour.
  static let firstRetry: Duration = .milliseconds(250)
  static let longestRetry: Duration = .seconds(30)

  /// A worker looks at the queue this often even when nobody woke it, for migrations whose wait is over.
  static let longestSleep: Duration = .seconds(5)

  /// Calls of WatchMigration at once. Each is a task and a few hundred bytes; a person has one screen open.
  static let watchers = 10_000
  /// Of these, an account's, a device's and a session's: as many as identity lets them have of its own.
  static let watchesPerAccount = 16
  static let watchesPerDevice = 8
  static let watchesPerSession = 4
  static let watchBounds = WatchBounds(
    total: watchers, perSubject: watchesPerAccount, perDevice: watchesPerDevice, perSession: watchesPerSession)

  /// Migrations of which it is remembered why they do not move on: more than that have one cause, and it is in the log.
  static let hindrances = 10_000

  /// How often a watch makes sure, in memory, that its caller's session has not ended: well within a second.
  static let sessionRecheck: Duration = .milliseconds(400)

  /// How often the migrations that somebody watches are looked at for what other instances did: people do not notice half
  /// a second, and one statement serves `tailPage` of them.
  static let tailInterval: Duration = .milliseconds(500)
  static let tailPage = 500

  /// A worker that finds what is due held by another one's transaction, which takes milliseconds, comes back after this.
  static let shortestSleep: Duration = .milliseconds(25)

  /// What is told of why a migration does not move on.
  static let hindranceCharacters = 300

  /// A watcher looks at the stored state this often besides being told, so that a lost hint costs a moment only.
  static let watchRefresh: Duration = .seconds(2)

  /// The largest value fits into a message together with its name and the coding.
  static let assertions: Void = {
    precondition(putMessageBytes > 2 * (RecordContent.maximumValueBytes + RecordKey.maximumBytes + 1024))
    precondition(pageBytes >= RecordContent.maximumValueBytes)
    precondition(defaultPageSize <= largestPageSize)
    precondition(guestBounds.records <= accountBounds.records && guestBounds.bytes <= accountBounds.bytes)
    precondition(longestRetry <= JobLease.longestPause && lease <= JobLease.longestPause, "else it is due at once")
    precondition(undoWindow <= longestUndoWindow)
    precondition(turn < lease, "a claim must outlast a turn")
    precondition(switchPatience < lease, "a claim must outlast the call that is made under it")
  }()
}
