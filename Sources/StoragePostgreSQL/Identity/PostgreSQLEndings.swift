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
  private static let columns = "SELECT sid, sub, end_reason, ended_at FROM sessions WHERE ended_in IS NOT NULL AND"
  private static let selectSince = "\(columns) ended_at >= $1"
  private static let selectAfter = """
    \(columns) ended_in >= pg_snapshot_xmax($1::text::pg_snapshot)::text::bigint
      AND ended_in < pg_snapshot_xmax(pg_current_snapshot())::text::bigint
    UNION ALL
    \(columns) ended_in = ANY (ARRAY (SELECT n::text::bigint FROM pg_snapshot_xip($1::text::pg_snapshot) AS n))
    """

  func ended(after mark: EndingsMark?, since time: Timestamp) async throws(StorageError) -> EndingsNews {
    // One snapshot for both statements.
    try await database.read("find newly ended sessions", isUrgent: true) { db throws(StorageError) in
      let here = try await db.first(Self.selectMark) { row in
        (mark: EndingsMark(server: row.text(0), state: "\(row.text(1)) \(row.text(2))"), begun: row.integer(3))
      }
      guard let (now, begun) = here else {
        throw StorageError(.corrupt, operation: "find newly ended sessions", detail: "no snapshot")
      }
      guard let snapshot = Self.snapshot(of: mark, at: now.server, begun: begun) else {
        let sessions = try await db.all(Self.selectSince, .time(time), map: PostgreSQLSessions.ended)
        return EndingsNews(sessions: sessions, news: nil, mark: now)
      }
      let sessions = try await db.all(Self.selectAfter, .text(snapshot), map: PostgreSQLSessions.ended)
      let news = try await PostgreSQLNews(db: db).written(after: snapshot, limit: Limits.newsAtOnce)
      return EndingsNews(sessions: sessions, news: news, mark: now)
    }
  }

  func forgetNews(before time: Timestamp, limit: Int) async throws(StorageError) -> Int {
    try await database.write("forget news") { db throws(StorageError) in
      try await PostgreSQLNews.forget(before: time, limit: limit, in: db)
    }
  }

  /// The mark's snapshot if it holds at a server for a backend that began then.
  private static func snapshot(of mark: EndingsMark?, at server: String, begun: Int64) -> String? {
    guard let mark, mark.server == server else { return nil }
    let parts = mark.state.split(separator: " ")
    guard parts.count == 2, let time = Int64(parts[0]), begun <= time else { return nil }
    return String(parts[1])
  }
}
