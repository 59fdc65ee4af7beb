import LatchkeyModel
import Storage

/// What changed, by the transactions that changed it, as `PostgreSQLEndings` does: neither a time nor a sequence would do,
/// for a commit becomes visible when it does, not when its row was written. A mark holds at one server only.
extension PostgreSQLQRSessionStore {
  private static let selectMark =
    "SELECT (extract(epoch FROM pg_postmaster_start_time()) * 1000000)::bigint::text, pg_current_snapshot()::text"
  private static let columns = "SELECT poll_hash, version, state, issued_at, expires_at, account_mask"
  /// What is shown of a row's place has another name than the place, or the rows would be in the order of its text.
  ///
  /// Those that had not begun when the mark was given, and those that were running, of what the end's snapshot sees. However
  /// old the oldest running one is, nothing that was told is looked at again. Rows of numbers that the server has not come
  /// to are from a dump of another.
  private static let selectAfter = """
    SELECT poll_hash, version, state, issued_at, expires_at, account_mask, number, place::text AS shown FROM (
      (\(columns), xid::text::bigint AS number, ctid AS place FROM qr_changes
        WHERE xid >= pg_snapshot_xmax($1::text::pg_snapshot) AND xid < pg_snapshot_xmax($2::text::pg_snapshot)
          AND pg_visible_in_snapshot(xid, $2::text::pg_snapshot)
          AND xid >= $4::text::xid8 AND (xid > $4::text::xid8 OR ctid > $5::text::tid)
        ORDER BY xid, ctid LIMIT $3)
      UNION ALL
      (\(columns), xid::text::bigint AS number, ctid AS place FROM qr_changes
        WHERE xid = ANY (ARRAY (SELECT pg_snapshot_xip($1::text::pg_snapshot)))
          AND pg_visible_in_snapshot(xid, $2::text::pg_snapshot)
          AND xid >= $4::text::xid8 AND (xid > $4::text::xid8 OR ctid > $5::text::tid)
        ORDER BY xid, ctid LIMIT $3)
    ) AS waiting ORDER BY number, place LIMIT $3
    """
  private static let youngest = "(extract(epoch FROM statement_timestamp()) * 1000)::bigint - $1::bigint"
  private static let selectFirstPage = """
    \(columns), at, ctid::text AS shown FROM qr_changes WHERE at >= \(youngest) ORDER BY at, ctid LIMIT $2
    """
  private static let selectPage = """
    \(columns), at, ctid::text AS shown FROM qr_changes
    WHERE at >= \(youngest) AND at >= $3 AND (at > $3 OR ctid > $4::text::tid) ORDER BY at, ctid LIMIT $2
    """
  private static let remove = """
    DELETE FROM qr_changes WHERE ctid = ANY (ARRAY (
      SELECT ctid FROM qr_changes WHERE at < \(youngest) ORDER BY at LIMIT $2 FOR UPDATE SKIP LOCKED))
    """

  package func changeMark() async throws(StorageError) -> QRChangeMark {
    try await database.read(isUrgent: true) { db throws(StorageError) in try await Self.mark(db) }
  }

  package func changes(
    since mark: QRChangeMark, orOfLast duration: Duration, limit: Int
  ) async throws(StorageError) -> QRChanges {
    // One snapshot for all statements: what is not in it is not in its mark either.
    try await database.read("changes(since:)", isUrgent: true) { db throws(StorageError) in
      let now = try await Self.mark(db)
      if mark.server == now.server, mark.place == nil || mark.place?.end != nil {
        return try await Self.page(db, since: mark, upTo: mark.place?.end ?? now.state, limit)
      }
      return try await Self.page(db, from: mark.server == now.server ? mark : now, duration, limit)
    }
  }

  /// All pages go up to where the first did: what is committed between two of them is told after the last.
  private static func page(
    _ db: PostgreSQLConnection, since mark: QRChangeMark, upTo end: String, _ limit: Int
  ) async throws(StorageError) -> QRChanges {
    let (number, row) = (mark.place?.at ?? 0, mark.place?.row ?? "(0,0)")
    let rows = try await db.all(
      selectAfter, .text(mark.state), .text(end), .integer(limit), .text(String(number)), .text(row)
    ) { row throws(StorageError) in
      (try change(row), QRChangeMark.Place(at: row.integer(6), row: row.text(7), end: end))
    }
    let place = rows.count < limit ? nil : rows.last?.1
    let state = place == nil ? end : mark.state
    return QRChanges(rows.compactMap(\.0), mark: QRChangeMark(server: mark.server, state: state, place: place))
  }

  /// What is committed between two pages is not in the mark that the first was read with, and is told after the last.
  private static func page(
    _ db: PostgreSQLConnection, from mark: QRChangeMark, _ duration: Duration, _ limit: Int
  ) async throws(StorageError) -> QRChanges {
    let bounds: [PostgreSQLValue] = [.integer(duration.wholeMilliseconds), .integer(limit)]
    let after = mark.place.map { [PostgreSQLValue.integer($0.at), .text($0.row)] }
    let sql = after == nil ? selectFirstPage : selectPage
    let rows = try await db.all(sql, bounds + (after ?? [])) { row throws(StorageError) in
      (try change(row), QRChangeMark.Place(at: row.integer(6), row: row.text(7)))
    }
    let place = rows.count < limit ? nil : rows.last?.1
    return QRChanges(rows.compactMap(\.0), mark: QRChangeMark(server: mark.server, state: mark.state, place: place))
  }

  private static func mark(_ db: PostgreSQLConnection) async throws(StorageError) -> QRChangeMark {
    let mark = try await db.first(selectMark) { QRChangeMark(server: $0.text(0), state: $0.text(1)) }
    guard let mark else { throw StorageError(.corrupt, operation: "changes(since:)", detail: "no snapshot") }
    return mark
  }

  /// Nil for a state that only a newer release knows: whoever waits here is shown what comes after it.
  private static func change(_ row: PostgreSQLRow) throws(StorageError) -> QRChange? {
    guard let pollSecret = Digest256(row.bytes(0)) else {
      throw StorageError(.corrupt, operation: "qr_changes", detail: "a row does not read as a change")
    }
    guard let state = QRSessionState(rawValue: Int(row.integer(2))) else { return nil }
    return QRChange(
      pollSecret: pollSecret, version: row.integer(1), state: state, issued: row.timestamp(3),
      expires: row.timestamp(4), mask: row.optionalText(5).flatMap(DisplayText.init))
  }

  package func forgetChanges(olderThan age: Duration, limit: Int) async throws(StorageError) -> Int {
    try await database.write { db throws(StorageError) in
      try await db.change(Self.remove, .integer(age.wholeMilliseconds), .integer(limit))
    }
  }
}
