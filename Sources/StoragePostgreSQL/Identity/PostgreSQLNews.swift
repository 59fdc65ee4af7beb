import LatchkeyModel
import Storage

/// The table `news`: what those who watch at other instances want to know, by the transactions that did it.
struct PostgreSQLNews {
  let db: PostgreSQLConnection

  static let statements = [
    """
    CREATE TABLE news (
      -- The transaction that it is of: see PostgreSQLEndings.
      written_in bigint NOT NULL,
      -- 0 a session began, 1 it was confirmed, 2 a merge failed, 3 progress in a guide changed
      kind       bigint NOT NULL CHECK (kind IN (0, 1, 2, 3)),
      at         bigint NOT NULL,
      sub        uuid,
      sid        uuid,
      -- The migration; the guide.
      detail     text COLLATE "C"
    )
    """,
    "CREATE INDEX news_by_transaction ON news (written_in)",
    "CREATE INDEX news_by_time ON news (at)",
  ]

  private enum Kind: Int64 {
    case began = 0
    case confirmed, mergeFailed, guide
  }

  private static let now = "floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint"
  private static let insert = """
    INSERT INTO news (written_in, kind, at, sub, sid, detail)
    VALUES (pg_current_xact_id()::text::bigint, $1, COALESCE($2, \(now)), $3, $4, $5)
    """
  private static let columns = "SELECT kind, at, sub, sid, detail, written_in, ctid AS place FROM news WHERE"
  /// As for what ended.
  private static let selectAfter = """
    SELECT kind, at, sub, sid, detail FROM (
      \(columns) written_in >= pg_snapshot_xmax($1::text::pg_snapshot)::text::bigint
        AND written_in < pg_snapshot_xmax($3::text::pg_snapshot)::text::bigint AND \(isSeen)
      UNION ALL
      \(columns) written_in = ANY (ARRAY (SELECT n::text::bigint FROM pg_snapshot_xip($1::text::pg_snapshot) AS n))
        AND \(isSeen)
    ) AS found ORDER BY written_in, place LIMIT $2
    """
  private static let isSeen = "pg_visible_in_snapshot(written_in::text::xid8, $3::text::pg_snapshot)"
  private static let selectSessions = "SELECT \(PostgreSQLSessions.columns) FROM sessions WHERE sid = ANY ($1::uuid[])"
  /// Nothing that others may not have read yet, whatever this instance's clock says.
  private static let remove = """
    DELETE FROM news WHERE ctid = ANY (ARRAY (
      SELECT ctid FROM news WHERE at < LEAST($1, \(now) - 60000) ORDER BY at LIMIT $2 FOR UPDATE SKIP LOCKED))
    """

  func append(_ news: SessionChanges) async throws(StorageError) {
    for session in news.began { try await insert(.began, sub: session.subject, sid: session.id) }
    for session in news.confirmed { try await insert(.confirmed, sid: session) }
    for merge in news.failedMerges {
      try await insert(.mergeFailed, sub: merge.target, detail: merge.migration, at: merge.at)
    }
    for change in news.guides { try await insert(.guide, sub: change.subject, detail: change.guide?.description) }
  }

  private func insert(
    _ kind: Kind, sub: SubjectID? = nil, sid: SessionID? = nil, detail: String? = nil, at: Timestamp? = nil
  ) async throws(StorageError) {
    try await db.execute(
      Self.insert, .integer(kind.rawValue), .optional(at?.millisecondsSinceEpoch), .optional(sub?.bytes),
      .optional(sid?.bytes), .optional(detail))
  }

  /// What was committed between a snapshot and a later one that the transaction sees; nil when it is more than that.
  func written(after snapshot: String, upTo end: String, limit: Int) async throws(StorageError) -> SessionChanges? {
    var (news, began, count) = (SessionChanges(), [[UInt8]](), 0)
    _ = try await db.all(
      Self.selectAfter, .text(snapshot), .integer(limit + 1), .text(end)
    ) { row throws(StorageError) in
      count += 1
      switch Kind(rawValue: row.integer(0)) {
      case .began: began.append(row.bytes(3))
      case .confirmed: news.confirmed.append(try row.id(3))
      case .mergeFailed:
        news.failedMerges.append(
          FailedMerge(target: try row.id(2), migration: row.optionalText(4), at: row.timestamp(1)))
      case .guide:
        news.guides.append(GuideChange(row.optionalText(4).flatMap { GuideID($0) }, of: try row.id(2)))
      // Of a newer release: nobody watches for it here.
      case nil: break
      }
    }
    guard count <= limit else { return nil }
    // What only a newer release can read is passed over: it must not hold up which sessions ended.
    let found =
      began.isEmpty
      ? [] : try await db.all(Self.selectSessions, .uuids(began)) { row in try? PostgreSQLSessions.map(row) }
    // One that has ended again is told as that.
    news.began = found.compactMap { $0 }.filter { $0.ended == nil }.sorted { ($0.beganAt, $0.id) < ($1.beganAt, $1.id) }
    return news
  }

  static func forget(
    before time: Timestamp, limit: Int, in db: PostgreSQLConnection
  ) async throws(StorageError) -> Int {
    try await db.change(remove, .time(time), .integer(limit))
  }
}
