import LatchkeyModel
import Storage

/// One transaction of one connection, as the database remembers it.
struct CommitMark: Sendable {
  let lane: Int64
  let number: Int64
}

/// How a connection can be asked, from another one, whether a commit was made whose answer never came.
///
/// A connection has a lane, which is a random number and a row of the table `lanes`, and counts its transactions. Each one
/// that changes anything also sets the row to its number. So the row has the number once the transaction is committed, and
/// not before, on this server and on any that takes its place.
///
/// Who looks closes the lane with the same statement. A transaction that is just being committed holds the row, so that the
/// look waits for it; one whose last bytes are still on their way to the server fails when it comes to the closed row. What
/// a look has answered therefore stays true.
///
/// After some commits a connection takes another lane: while somebody reads one state of the database for long, such as who
/// copies it, every version of a row stays and is gone through with each change.
struct CommitLane {
  private var lane = Int64.random(in: .min ... .max)
  private var last: Int64 = 0
  /// The one before, of which every commit was answered.
  private var before: Int64?

  /// Of the transaction that is about to be committed.
  var next: CommitMark { CommitMark(lane: lane, number: last + 1) }

  /// What that transaction takes away: the row of the lane before, or those that are left of connections that ended.
  var removal: (sql: String, values: [PostgreSQLValue])? {
    if last > 0 { return nil }
    return before.map { (Self.leave, [.integer($0)]) } ?? (Self.forget, [])
  }

  mutating func advance() {
    last += 1
    if last == Limits.laneCommits { (before, lane, last) = (lane, Int64.random(in: .min ... .max), 0) }
  }

  /// What a part's schema has for it.
  static let statements = [
    """
    CREATE TABLE lanes (
      lane    bigint NOT NULL PRIMARY KEY,
      -- Of the last transaction that changed anything.
      last    bigint NOT NULL,
      -- Once somebody looked: what the last one was, and will be.
      closed  bigint CHECK (last <= closed),
      used_at timestamptz NOT NULL DEFAULT now()
    ) WITH (fillfactor = 20)
    """
  ]

  /// Part of a transaction, as its last statement. Where nothing was changed it changes nothing either.
  static let mark = """
    INSERT INTO lanes (lane, last)
    SELECT $1::bigint, $2::bigint WHERE pg_current_xact_id_if_assigned() IS NOT NULL
    ON CONFLICT (lane) DO UPDATE SET last = excluded.last, used_at = excluded.used_at
    """

  /// A transaction of its own. Answers the lane's last number, now and for ever.
  static let close = """
    INSERT INTO lanes (lane, last, closed) VALUES ($1, 0, 0)
    ON CONFLICT (lane) DO UPDATE SET closed = coalesce(lanes.closed, lanes.last), used_at = excluded.used_at
    RETURNING last
    """

  private static let leave = "DELETE FROM lanes WHERE lane = $1"
  /// A month is far longer than anybody looks, whatever a server's clock says. The row of a lane that is used again comes back.
  private static let forget = """
    DELETE FROM lanes WHERE lane IN (
      SELECT lane FROM lanes WHERE used_at < now() - interval '30 days' LIMIT 100 FOR UPDATE SKIP LOCKED)
    """
}

/// Operations whose commit nobody answered, until somebody knows what became of it.
struct UnknownCommits {
  struct Entry {
    let mark: CommitMark
    /// With the results that hold if it was made.
    var operations: [any QueuedOperation]
    /// If it was not made. Not what this side gave up: a server that is in trouble has enough of it.
    let isRunAgain: Bool
    /// Why nobody knows.
    let failure: StorageError
    /// After which they are told so, if their callers do not go before.
    let deadline = ContinuousClock.now + Limits.longestLook

    func isLate(_ operation: any QueuedOperation, at now: ContinuousClock.Instant) -> Bool {
      deadline <= now || operation.deadline.map { $0 - Limits.timeToSaySo <= now } ?? false
    }
  }

  private var entries: [Entry] = []
  /// How many are being looked up.
  private var looks = 0
  /// The last look did not tell, and nothing else was done since.
  var hasFailed = false

  /// Whether somebody should come and look. All connections but one may be looking: each may wait for a commit.
  func isReady(among connections: Int) -> Bool {
    !entries.isEmpty && looks < min(Limits.looksAtOnce, max(1, connections - 1))
  }

  /// False when there are too many.
  mutating func append(_ entry: Entry) -> Bool {
    guard entries.count < Limits.unknownCommits else { return false }
    entries.append(entry)
    return true
  }

  /// One to look up, which is over when ``finished(_:)`` says so.
  mutating func next(among connections: Int) -> Entry? {
    guard isReady(among: connections) else { return nil }
    looks += 1
    return entries.removeFirst()
  }

  /// - Parameter entry: what is to be looked up once more; nil when it is known.
  mutating func finished(_ entry: Entry?) {
    looks -= 1
    hasFailed = entry != nil
    if let entry { entries.append(entry) }
  }

  var isEmpty: Bool { entries.isEmpty }

  /// Operations that nobody looks for any longer, in entries of their own.
  mutating func takeLate(at now: ContinuousClock.Instant) -> [Entry] {
    var late: [Entry] = []
    for place in entries.indices {
      let all = entries[place]
      var (gone, left) = (all, all)
      gone.operations = all.operations.filter { all.isLate($0, at: now) }
      guard !gone.operations.isEmpty else { continue }
      left.operations = all.operations.filter { !all.isLate($0, at: now) }
      entries[place] = left
      late.append(gone)
    }
    entries.removeAll(where: \.operations.isEmpty)
    return late
  }

  mutating func takeAll() -> [Entry] {
    defer { entries = [] }
    return entries
  }
}
