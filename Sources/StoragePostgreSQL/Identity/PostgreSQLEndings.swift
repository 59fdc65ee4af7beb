import LatchkeyModel
import Storage

/// What ended, by the transactions that ended it.
///
/// Neither a time nor a sequence would do: both are taken before the commit, and a commit that waits for a standby becomes
/// visible whenever that answers, minutes later if need be. So each ended session says which transaction ended it, and a
/// reader asks for those that its last snapshot did not see: the ones that were running then, and the ones that had not
/// begun. Each transaction becomes visible once, so none is missed and none is told twice.
///
/// A server that takes over counts on from what had reached it, and may give a number again that was lost with the old
/// one; so may one that has crashed. Therefore a mark holds at one server only, which is known by when it started, and only
/// for a backend that was there before the mark: one that crashes takes all of its backends with it, and starts them anew
/// without having started itself.
///
/// Rows of a dump that was read in have the numbers of another server. Those that this one has not given yet are nobody's
/// news.
struct PostgreSQLEndings: SharedEndings {
  let database: PostgreSQLDatabase

  /// The second is a time that was before the snapshot, the last when the backend began.
  private static let selectMark = """
    SELECT \(PostgreSQLConnection.thisServer), (extract(epoch FROM now()) * 1000000)::bigint::text,
      pg_current_snapshot()::text, COALESCE(
        (SELECT (extract(epoch FROM backend_start) * 1000000)::bigint FROM pg_stat_get_activity(pg_backend_pid())),
        9223372036854775807)
    """
  private static let columns =
    "SELECT sid, sub, end_reason, ended_at, ended_in FROM sessions WHERE ended_in IS NOT NULL AND"
  private static let selectSince = """
    \(columns) ended_at >= $1 AND ended_at >= $3 AND (ended_at > $3 OR sid > $4) ORDER BY ended_at, sid LIMIT $2
    """
  /// Those that had not begun when the mark was given, and those that were running, of what the end's snapshot sees.
  private static let selectAfter = """
    SELECT * FROM (
      (\(columns) ended_in >= pg_snapshot_xmax($1::text::pg_snapshot)::text::bigint
          AND ended_in < pg_snapshot_xmax($2::text::pg_snapshot)::text::bigint AND \(isWaiting)
        ORDER BY ended_in, sid LIMIT $3)
      UNION ALL
      (\(columns) ended_in = ANY (ARRAY (SELECT n::text::bigint FROM pg_snapshot_xip($1::text::pg_snapshot) AS n))
          AND \(isWaiting)
        ORDER BY ended_in, sid LIMIT $3)
    ) AS waiting ORDER BY ended_in, sid LIMIT $3
    """
  private static let isWaiting = """
    pg_visible_in_snapshot(ended_in::text::xid8, $2::text::pg_snapshot)
      AND ended_in >= $4 AND (ended_in > $4 OR sid > $5)
    """

  func ended(
    after mark: EndingsMark?, since time: Timestamp, limit: Int
  ) async throws(StorageError) -> EndingsNews {
    // One snapshot for both statements.
    try await database.read("find newly ended sessions", isUrgent: true) { db throws(StorageError) in
      let here = try await db.first(Self.selectMark) { row in
        (mark: EndingsMark(server: row.text(0), state: "\(row.text(1)) \(row.text(2))"), begun: row.integer(3))
      }
      guard let (now, begun) = here else {
        throw StorageError(.corrupt, operation: "find newly ended sessions", detail: "no snapshot")
      }
      guard let mark, let snapshot = Self.snapshot(of: mark, at: now.server, begun: begun) else {
        return try await Self.page(db, from: now, since: time, limit)
      }
      if let place = mark.place, place.end == nil { return try await Self.page(db, from: mark, since: time, limit) }
      return try await Self.page(db, after: snapshot, of: mark, upTo: mark.place?.end ?? now.state, limit)
    }
  }

  /// All pages go up to where the first did: what is committed between two of them is told after the last.
  private static func page(
    _ db: PostgreSQLConnection, after snapshot: String, of mark: EndingsMark, upTo end: String, _ limit: Int
  ) async throws(StorageError) -> EndingsNews {
    let last = Self.snapshot(end)
    let rows = try await db.all(
      selectAfter, .text(snapshot), .text(last), .integer(limit), .integer(mark.place?.at ?? 0), session(mark.place)
    ) { row throws(StorageError) in (try PostgreSQLSessions.ended(row), row.integer(4)) }
    guard rows.count == limit, let (session, number) = rows.last else {
      let news = try await PostgreSQLNews(db: db).written(after: snapshot, upTo: last, limit: Limits.newsAtOnce)
      return EndingsNews(sessions: rows.map(\.0), news: news, mark: EndingsMark(server: mark.server, state: end))
    }
    let place = EndingsMark.Place(at: number, session: session.id, end: end)
    return EndingsNews(
      sessions: rows.map(\.0), news: SessionChanges(),
      mark: EndingsMark(server: mark.server, state: mark.state, place: place))
  }

  /// What is committed between two pages is not in the mark that the first was read with, and is told after the last.
  private static func page(
    _ db: PostgreSQLConnection, from mark: EndingsMark, since time: Timestamp, _ limit: Int
  ) async throws(StorageError) -> EndingsNews {
    let sessions = try await db.all(
      selectSince, .time(time), .integer(limit), .integer(mark.place?.at ?? 0), session(mark.place),
      map: PostgreSQLSessions.ended)
    guard sessions.count == limit, let last = sessions.last else {
      return EndingsNews(sessions: sessions, news: nil, mark: EndingsMark(server: mark.server, state: mark.state))
    }
    let place = EndingsMark.Place(at: last.at.millisecondsSinceEpoch, session: last.id, end: nil)
    return EndingsNews(
      sessions: sessions, news: SessionChanges(),
      mark: EndingsMark(server: mark.server, state: mark.state, place: place))
  }

  private static func session(_ place: EndingsMark.Place?) -> PostgreSQLValue {
    place.map { .id($0.session) } ?? .bytes([UInt8](repeating: 0, count: 16))
  }

  func forgetNews(before time: Timestamp, limit: Int) async throws(StorageError) -> Int {
    try await database.write("forget news") { db throws(StorageError) in
      try await PostgreSQLNews.forget(before: time, limit: limit, in: db)
    }
  }

  /// The mark's snapshot if it holds at a server for a backend that began then.
  private static func snapshot(of mark: EndingsMark, at server: String, begun: Int64) -> String? {
    guard mark.server == server, let time = mark.state.split(separator: " ").first.flatMap({ Int64($0) }), begun <= time
    else { return nil }
    return snapshot(mark.state)
  }

  private static func snapshot(_ state: String) -> String { String(state.split(separator: " ").last ?? "") }
}
