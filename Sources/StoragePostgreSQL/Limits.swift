/// The bounds of this module, each with the reason for its number.
enum Limits {
  /// Connections of one process. A PostgreSQL of 100 connections serves a dozen instances so, and more would not make
  /// one instance faster: eight writers keep a disk busy.
  static let connections = 8

  /// Between two attempts of a process to connect again. Instances that come back at once after an outage keep a
  /// database from coming back.
  static let reconnectPause: Duration = .seconds(1)

  /// Added at random to the pause, so that instances which lost their database together come back apart.
  static let reconnectJitter: ClosedRange<Int> = 0...250

  /// For one address to answer, in seconds: libpq takes no less than two. Several hosts are tried one after the other.
  static let connectSeconds = 3

  /// For the answer to a statement. No statement reads more than a page of rows; one that takes longer waits for
  /// something that will not come.
  static let statement: Duration = .seconds(5)

  /// For the answer to a COMMIT, which waits for a standby as well: a moment's trouble of the network is no reason not to
  /// know what became of a write.
  static let commit: Duration = .seconds(10)

  /// For a lock that another transaction holds, in milliseconds. Writers hold theirs for some milliseconds.
  static let lockMilliseconds = 2000

  /// After which the server ends a transaction whose client went silent, in milliseconds, and lets go of its locks. Above
  /// what our own code ever takes between two statements.
  static let silenceMilliseconds = 10_000

  /// How often the server looks whether the client of a running statement is still there, in milliseconds.
  static let clientCheckMilliseconds = 2000

  /// A connection that was idle for this long is asked whether it is alive.
  static let heartbeat: Duration = .seconds(5)

  /// Operations that may wait for a connection. At some 5,000 a second these are 0.8 s of work.
  static let waiting = 4096

  /// While what came first has waited for this long nothing more is queued.
  static let longestWait: Duration = .seconds(1)

  /// Operations in one transaction, or in one go. With a commit of some hundred microseconds each has a few of them, and a
  /// failure has no more to be done over.
  static let groupOperations = 64

  /// Connections that have groups of changes at once: while one waits for the disk, or for a standby, the next one gathers
  /// and goes on its way. More would make smaller groups.
  static let changeLanes = 4

  /// Connections that have lookups in groups. With those above they leave two to what is done by itself.
  static let lookupLanes = 2

  /// After which the next group of a kind begins while one is on its way, and nobody else has to wait for what that waits for.
  /// A commit on a disk takes less, as does one of a near standby.
  static let groupOverlap: Duration = .milliseconds(5)

  /// After which a group takes on no more of those that wait for others of it, about the same rows, which are then left for the
  /// next: a transaction's locks are held to its end. Some milliseconds are usual.
  static let groupDuration: Duration = .milliseconds(20)

  /// For a lock that another transaction holds, in milliseconds, while others wait for the same commit and hold their own.
  /// Longer than a few groups take, so that those with a row in common get by each other.
  static let groupLockMilliseconds = 50

  /// After which the server ends a group whose process stands still, in milliseconds: it holds rows of many.
  static let groupSilenceMilliseconds = 2000

  /// For how long changes are done by themselves after a group found others in its way: these may go on for a while.
  static let groupPause: Duration = .milliseconds(500)

  /// How often an operation is begun on another connection after one was lost under it.
  static let losses = 3

  /// For how long a commit that nobody answered is looked up. A server that takes another's place does so within ten
  /// seconds; who asked has mostly gone by then.
  static let longestLook: Duration = .seconds(15)

  /// Before the end of a caller's time, if that comes sooner: to be told that nobody knows is worth more than nothing.
  static let timeToSaySo: Duration = .milliseconds(500)

  /// How often that is looked at while there is no connection.
  static let looksForLate: Duration = .milliseconds(100)

  /// Commits that wait to be looked up, of up to ``groupOperations`` operations each.
  static let unknownCommits = 64

  /// Commits of one lane. Where nothing can be tidied away the last of them goes through what all before it left, which takes
  /// some ten microseconds.
  static let laneCommits = 1000

  /// Connections that look commits up at once. Each may wait for one that is just being made, and others have work.
  static let looksAtOnce = 2

  /// Before a commit that could not be looked up is looked up again, in milliseconds.
  static let lookPauseMilliseconds: UInt32 = 100

  /// For how long a connection knows where its chain of the audit log ends. Nothing is forgotten so soon after it was
  /// recorded.
  static let chainEndAge: Duration = .seconds(10)

  /// How often an operation is run again after a serialization failure or a deadlock.
  static let retries = 3

  /// The longest wait before the first of these, in milliseconds; it doubles.
  static let retryMilliseconds = 10

  /// Prepared statements that a connection keeps. The statements are constants of the stores and far fewer.
  static let preparedStatements = 512

  /// Parts of the sum of what guests store. A connection has its own by the number of its server process: with fewer than
  /// this many connections two of them seldom wait for each other, and reading the sum costs some microseconds.
  static let guestUsageParts = 64

  /// Between two trials whether a server has room again that had none.
  static let roomPause: Duration = .seconds(1)

  /// For how long it must not have said so before a trial is believed.
  static let roomCalm: Duration = .seconds(5)

  /// Rows of one trial: with a fill factor of a fifth some forty of them take a page.
  static let roomRows = 200

  /// For how long after its last sign of life a member's number is nobody's, in milliseconds: far longer than a process is
  /// ever stopped and goes on with what it had in hand, and longer than a code that bears the number may live.
  static let memberLeaseMilliseconds: Int64 = 750_000

  /// After which a member that gives no sign of life is none, in milliseconds: five signs that did not come.
  static let memberSilenceMilliseconds: Int64 = 5000

  /// What is found at once for those who watch: some milliseconds of a connection. Of more they look for themselves.
  static let newsAtOnce = 5000

  /// Contents of a document that are remembered to have been in force: a file that an instance kept from then is old.
  static let rememberedDocuments: Int64 = 100

  /// After which tables are given up that are to be brought forward, while nothing moves on. A process that does not get on
  /// ends, says why, and is started again.
  static let schemaPatience: Duration = .seconds(30)

  /// For one statement that brings tables forward: to build an index of a table with a hundred million rows takes minutes,
  /// and more on a slow disk.
  static let schemaStatement: Duration = .seconds(6 * 3600)

  /// For one statement of who copies all there is: to count or to order a table with a hundred million rows takes minutes.
  static let copyStatement: Duration = .seconds(3600)

  /// Before a step that got no lock tries again, in milliseconds. While it waits everybody else waits behind it; this is
  /// more than it waits, so that they get on.
  static let schemaPauseMilliseconds: ClosedRange<UInt32> = 2500...4000

  /// Before it is asked again whose turn it is to bring tables forward, in milliseconds. Nobody waits behind that.
  static let schemaTurnMilliseconds: ClosedRange<UInt32> = 100...500
}
