import LatchkeyModel
import Storage

/// The table `sessions`.
struct SQLiteSessions: SessionRows {
  let db: SQLiteConnection

  private static let columns = """
    sid, sub, is_guest, client_id, scope, method, device_key, device_label, device_platform, bound_key, refresh_seed,
    authenticated_at, generation, rotated_at, idle_expires_at, absolute_expires_at, ended_at, end_reason,
    confirmed_at, began_at, proven_by
    """
  private static let selectOne = "SELECT \(columns) FROM sessions WHERE sid = ?"
  private static let selectLive = """
    SELECT \(columns) FROM sessions
    WHERE sub = ?1 AND ended_at IS NULL AND idle_expires_at > ?2 AND absolute_expires_at > ?2
    ORDER BY coalesce(began_at, authenticated_at) DESC, sid DESC LIMIT ?3
    """
  private static let insertOne = """
    INSERT INTO sessions (\(columns)) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
    """

  func find(_ id: SessionID) throws(StorageError) -> Session? {
    try db.first(Self.selectOne, .id(id), map: Self.map)
  }

  func lock(_ id: SessionID) throws(StorageError) -> Session? { try find(id) }

  func live(
    of subject: SubjectID, at now: Timestamp, limit: Int
  ) throws(StorageError) -> [Session] {
    try db.all(Self.selectLive, .id(subject), .time(now), .integer(limit), map: Self.map)
  }

  func lastRotation(of subject: SubjectID) throws(StorageError) -> Timestamp? {
    let time = try db.first(
      "SELECT max(rotated_at) FROM sessions WHERE sub = ? AND ended_at IS NULL", .id(subject)
    ) { $0.optionalInteger(0) }
    return time.flatMap { $0 }.map { Timestamp(millisecondsSinceEpoch: $0) }
  }

  func insert(_ session: Session) throws(StorageError) {
    try db.execute(
      Self.insertOne,
      .id(session.id), .id(session.subject), .boolean(session.isGuest), .text(session.client.description),
      .text(session.scope.description), .text(session.method.rawValue), .optional(session.device.keyThumbprint),
      .optional(session.device.label?.description), .optional(session.device.platform?.description),
      .optional(session.boundKeyThumbprint), .blob(session.refreshSeed.exposed), .time(session.authenticatedAt),
      .integer(session.family.generation), .time(session.family.rotatedAt), .time(session.family.idleExpiry),
      .time(session.family.absoluteExpiry), .optional(session.ended?.at.millisecondsSinceEpoch),
      .optional(session.ended?.why.rawValue), .optional(session.confirmedAt?.millisecondsSinceEpoch),
      .time(session.beganAt), .optional(session.provenBy?.rawValue)
    )
  }

  func changeFamily(of session: Session) throws(StorageError) {
    try db.execute(
      "UPDATE sessions SET generation = ?, rotated_at = ?, idle_expires_at = ? WHERE sid = ?",
      .integer(session.family.generation), .time(session.family.rotatedAt), .time(session.family.idleExpiry),
      .id(session.id)
    )
  }

  func change(_ session: Session) throws(StorageError) {
    try db.execute(
      """
      UPDATE sessions SET authenticated_at = ?, proven_by = ?, confirmed_at = ?, generation = ?, rotated_at = ?,
        idle_expires_at = ?
      WHERE sid = ?
      """,
      .time(session.authenticatedAt), .optional(session.provenBy?.rawValue),
      .optional(session.confirmedAt?.millisecondsSinceEpoch),
      .integer(session.family.generation), .time(session.family.rotatedAt), .time(session.family.idleExpiry),
      .id(session.id)
    )
  }

  func change(
    of subject: SubjectID, onDevice keyThumbprint: String, label: DisplayText, at now: Timestamp
  ) throws(StorageError) -> Int {
    try db.execute(
      """
      UPDATE sessions SET device_label = ?
      WHERE sub = ? AND device_key = ? AND ended_at IS NULL AND idle_expires_at > ?
      """,
      .text(label.description), .id(subject), .text(keyThumbprint), .time(now)
    )
  }

  func end(_ id: SessionID, because why: Session.End, at now: Timestamp) throws(StorageError) -> EndedSession? {
    try db.first(
      "UPDATE sessions SET ended_at = ?, end_reason = ? WHERE sid = ? AND ended_at IS NULL RETURNING sid, sub",
      .time(now), .integer(why.rawValue), .id(id)
    ) { row throws(StorageError) in
      EndedSession(id: try row.id(0), subject: try row.id(1), why: why, at: now)
    }
  }

  func end(
    of subject: SubjectID, except kept: SessionID?, because why: Session.End, at now: Timestamp
  ) throws(StorageError) -> [EndedSession] {
    try db.all(
      """
      UPDATE sessions SET ended_at = ?, end_reason = ?
      WHERE sub = ? AND ended_at IS NULL AND sid <> coalesce(?, x'')
      RETURNING sid, sub
      """,
      .time(now), .integer(why.rawValue), .id(subject), .optional(kept?.bytes)
    ) { row throws(StorageError) in
      EndedSession(id: try row.id(0), subject: try row.id(1), why: why, at: now)
    }
  }

  func end(
    of subject: SubjectID, onDevice keyThumbprint: String, because why: Session.End, at now: Timestamp
  ) throws(StorageError) -> [EndedSession] {
    try db.all(
      """
      UPDATE sessions SET ended_at = ?, end_reason = ?
      WHERE sub = ? AND ended_at IS NULL AND device_key = ?
      RETURNING sid, sub
      """,
      .time(now), .integer(why.rawValue), .id(subject), .text(keyThumbprint)
    ) { row throws(StorageError) in
      EndedSession(id: try row.id(0), subject: try row.id(1), why: why, at: now)
    }
  }

  func end(
    begunUntil time: Timestamp, limit: Int, because why: Session.End, at now: Timestamp
  ) throws(StorageError) -> [EndedSession] {
    try db.all(
      """
      UPDATE sessions SET ended_at = ?1, end_reason = ?2
      WHERE sid IN (
        SELECT sid FROM sessions WHERE ended_at IS NULL AND idle_expires_at > ?1 AND coalesce(began_at, authenticated_at) <= ?3 LIMIT ?4)
      RETURNING sid, sub
      """,
      .time(now), .integer(why.rawValue), .time(time), .integer(limit)
    ) { row throws(StorageError) in
      EndedSession(id: try row.id(0), subject: try row.id(1), why: why, at: now)
    }
  }

  func changeDevice(of subject: SubjectID, _ keyThumbprint: String, to other: String) throws(StorageError) -> Int {
    try db.execute(
      """
      UPDATE sessions SET device_key = ?2, bound_key = iif(bound_key = ?1, ?2, bound_key)
      WHERE sub = ?3 AND device_key = ?1 AND ended_at IS NULL
      """,
      .text(keyThumbprint), .text(other), .id(subject)
    )
  }

  static let selectLeftDevice = """
    SELECT device_key FROM sessions
    WHERE ended_at = ? AND sub = ? AND end_reason = ? AND device_key IS NOT NULL LIMIT 1
    """

  func device(
    of subject: SubjectID, leftAt time: Timestamp, because why: Session.End
  ) throws(StorageError) -> String? {
    try db.first(Self.selectLeftDevice, .time(time), .id(subject), .integer(why.rawValue)) { $0.text(0) }
  }

  /// Each with the index that finds it. Before the sessions: what a code began is forgotten with what it began; revoking it
  /// ends nothing any more.
  static let removeOver = [
    """
    DELETE FROM qr_grants WHERE sid IN
      (SELECT sid FROM sessions WHERE ended_at IS NOT NULL AND ended_at < ? ORDER BY ended_at LIMIT ?)
    """,
    """
    DELETE FROM lineage WHERE descendant IN
      (SELECT CAST(x'73' || sid AS BLOB) FROM sessions WHERE ended_at IS NOT NULL AND ended_at < ?
        ORDER BY ended_at LIMIT ?)
    """,
    """
    DELETE FROM sessions WHERE sid IN
      (SELECT sid FROM sessions WHERE ended_at IS NOT NULL AND ended_at < ? ORDER BY ended_at LIMIT ?)
    """,
    """
    DELETE FROM qr_grants WHERE sid IN
      (SELECT sid FROM sessions WHERE ended_at IS NULL AND idle_expires_at < ? ORDER BY idle_expires_at LIMIT ?)
    """,
    """
    DELETE FROM lineage WHERE descendant IN
      (SELECT CAST(x'73' || sid AS BLOB) FROM sessions WHERE ended_at IS NULL AND idle_expires_at < ?
        ORDER BY idle_expires_at LIMIT ?)
    """,
    """
    DELETE FROM sessions WHERE sid IN
      (SELECT sid FROM sessions WHERE ended_at IS NULL AND idle_expires_at < ? ORDER BY idle_expires_at LIMIT ?)
    """,
  ]

  func remove(overBefore time: Timestamp, limit: Int) throws(StorageError) -> Int {
    var count = 0
    for statement in Self.removeOver { count += try db.execute(statement, .time(time), .integer(limit)) }
    return count
  }

  func ended(since: Timestamp) throws(StorageError) -> [EndedSession] {
    try db.all(
      "SELECT sid, sub, end_reason, ended_at FROM sessions WHERE ended_at IS NOT NULL AND ended_at >= ?", .time(since)
    ) { row throws(StorageError) in
      guard let why = Session.End(rawValue: row.integer(2)) else {
        throw StorageError(.corrupt, operation: "read a session", detail: "unknown end")
      }
      return EndedSession(id: try row.id(0), subject: try row.id(1), why: why, at: row.timestamp(3))
    }
  }

  /// The partial index over accounts' sessions answers it: its condition must stand here word for word.
  static let selectOnDevice = "SELECT 1 FROM sessions WHERE sub = ? AND device_key = ? AND is_guest = 0 LIMIT 1"

  func wasUsed(_ account: SubjectID, onDevice keyThumbprint: String) throws(StorageError) -> Bool {
    try db.first(Self.selectOnDevice, .id(account), .text(keyThumbprint)) { _ in true } ?? false
  }

  func newest(of subject: SubjectID, onDevice keyThumbprint: String) throws(StorageError) -> Session? {
    try db.first(
      """
      SELECT \(Self.columns) FROM sessions WHERE sub = ? AND device_key = ?
      ORDER BY coalesce(began_at, authenticated_at) DESC, sid DESC LIMIT 1
      """,
      .id(subject), .text(keyThumbprint), map: Self.map)
  }

  private static func map(_ row: SQLiteRow) throws(StorageError) -> Session {
    guard let method = SignInMethod(rawValue: row.text(5)) else {
      throw StorageError(.corrupt, operation: "read a session", detail: "unknown method")
    }
    var ending: Session.Ending?
    if let endedAt = row.optionalInteger(16) {
      guard let why = Session.End(rawValue: row.integer(17)) else {
        throw StorageError(.corrupt, operation: "read a session", detail: "unknown end")
      }
      ending = Session.Ending(at: Timestamp(millisecondsSinceEpoch: endedAt), why: why)
    }
    return Session(
      id: try row.id(0),
      subject: try row.id(1),
      isGuest: row.boolean(2),
      client: try row.parsed(3),
      scope: try row.parsed(4),
      method: method,
      device: Session.Device(
        keyThumbprint: row.optionalText(6),
        label: row.optionalText(7).flatMap { DisplayText($0) },
        platform: row.optionalText(8).flatMap { DisplayText($0) }
      ),
      boundKeyThumbprint: row.optionalText(9),
      refreshSeed: RedactedSecret(row.blob(10)),
      // A session of an earlier version began when its owner proved themselves.
      beganAt: row.optionalInteger(19).map { Timestamp(millisecondsSinceEpoch: $0) },
      authenticatedAt: row.timestamp(11),
      provenBy: row.optionalText(20).flatMap { SignInMethod(rawValue: $0) },
      family: RefreshFamily(
        generation: row.integer(12),
        rotatedAt: row.timestamp(13),
        idleExpiry: row.timestamp(14),
        absoluteExpiry: row.timestamp(15)
      ),
      ended: ending,
      confirmedAt: row.optionalInteger(18).map { Timestamp(millisecondsSinceEpoch: $0) }
    )
  }
}
