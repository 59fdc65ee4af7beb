import LatchkeyModel
import Storage

/// The table `sessions`.
struct PostgreSQLSessions: SessionRows {
  let db: PostgreSQLConnection

  static let columns = """
    sid, sub, is_guest, client_id, scope, method, device_key, device_label, device_platform, bound_key, refresh_seed,
    authenticated_at, generation, rotated_at, idle_expires_at, absolute_expires_at, ended_at, end_reason,
    confirmed_at, began_at, proven_by
    """
  private static let selectOne = "SELECT \(columns) FROM sessions WHERE sid = $1"
  private static let selectLive = """
    SELECT \(columns) FROM sessions
    WHERE sub = $1 AND ended_at IS NULL AND idle_expires_at > $2 AND absolute_expires_at > $2
    ORDER BY began_at DESC, sid DESC LIMIT $3
    """
  private static let insert = PostgreSQLInsert(
    into: "sessions",
    [
      "sid": .id, "sub": .id, "is_guest": .flag, "client_id": .text, "scope": .text, "method": .text,
      "device_key": .text, "device_label": .text, "device_platform": .text, "bound_key": .text,
      "refresh_seed": .bytes, "authenticated_at": .integer, "generation": .integer, "rotated_at": .integer,
      "idle_expires_at": .integer, "absolute_expires_at": .integer, "confirmed_at": .integer, "began_at": .integer,
      "proven_by": .text,
    ])
  private static let thisTransaction = PostgreSQLConnection.thisTransaction
  private static let setEnded = "UPDATE sessions SET ended_at = $1, end_reason = $2, ended_in = \(thisTransaction)"

  func find(_ id: SessionID) async throws(StorageError) -> Session? {
    try await db.first(Self.selectOne, .id(id), map: Self.map)
  }

  func lock(_ id: SessionID) async throws(StorageError) -> Session? {
    try await db.first("\(Self.selectOne) FOR UPDATE", .id(id), map: Self.map)
  }

  func live(
    of subject: SubjectID, at now: Timestamp, limit: Int
  ) async throws(StorageError) -> [Session] {
    try await db.all(Self.selectLive, .id(subject), .time(now), .integer(limit), map: Self.map)
  }

  func lastRotation(of subject: SubjectID) async throws(StorageError) -> Timestamp? {
    let time = try await db.first(
      // One that is being renewed is waited for.
      """
      SELECT max(rotated_at) FROM
        (SELECT rotated_at FROM sessions WHERE sub = $1 AND ended_at IS NULL FOR UPDATE) AS live
      """,
      .id(subject)
    ) { $0.optionalInteger(0) }
    return time.flatMap { $0 }.map { Timestamp(millisecondsSinceEpoch: $0) }
  }

  func insert(_ session: Session) async throws(StorageError) {
    let row: [PostgreSQLValue] = [
      .id(session.id), .id(session.subject), .boolean(session.isGuest), .text(session.client.description),
      .text(session.scope.description), .text(session.method.rawValue), .optional(session.device.keyThumbprint),
      .optional(session.device.label?.description), .optional(session.device.platform?.description),
      .optional(session.boundKeyThumbprint), .bytes(session.refreshSeed.exposed), .time(session.authenticatedAt),
      .integer(session.family.generation), .time(session.family.rotatedAt), .time(session.family.idleExpiry),
      .time(session.family.absoluteExpiry), .optional(session.confirmedAt?.millisecondsSinceEpoch),
      .time(session.beganAt), .optional(session.provenBy?.rawValue),
    ]
    try await db.add([row], by: Self.insert)
    guard let ending = session.ended else { return }
    try await db.execute(
      "\(Self.setEnded) WHERE sid = $3", .time(ending.at), .integer(ending.why.rawValue), .id(session.id))
  }

  func changeFamily(of session: Session) async throws(StorageError) {
    try await db.execute(
      "UPDATE sessions SET generation = $1, rotated_at = $2, idle_expires_at = $3 WHERE sid = $4",
      .integer(session.family.generation), .time(session.family.rotatedAt), .time(session.family.idleExpiry),
      .id(session.id)
    )
  }

  func change(_ session: Session) async throws(StorageError) {
    try await db.execute(
      """
      UPDATE sessions SET authenticated_at = $1, proven_by = $2, confirmed_at = $3, generation = $4, rotated_at = $5,
        idle_expires_at = $6
      WHERE sid = $7
      """,
      .time(session.authenticatedAt), .optional(session.provenBy?.rawValue),
      .optional(session.confirmedAt?.millisecondsSinceEpoch),
      .integer(session.family.generation), .time(session.family.rotatedAt), .time(session.family.idleExpiry),
      .id(session.id)
    )
  }

  func change(
    of subject: SubjectID, onDevice keyThumbprint: String, label: DisplayText, at now: Timestamp
  ) async throws(StorageError) -> Int {
    try await db.change(
      """
      UPDATE sessions SET device_label = $1
      WHERE sub = $2 AND device_key = $3 AND ended_at IS NULL AND idle_expires_at > $4
      """,
      .text(label.description), .id(subject), .text(keyThumbprint), .time(now)
    )
  }

  func end(_ id: SessionID, because why: Session.End, at now: Timestamp) async throws(StorageError) -> EndedSession? {
    try await db.first(
      "\(Self.setEnded) WHERE sid = $3 AND ended_at IS NULL RETURNING sid, sub",
      .time(now), .integer(why.rawValue), .id(id)
    ) { row throws(StorageError) in
      EndedSession(id: try row.id(0), subject: try row.id(1), why: why, at: now)
    }
  }

  func end(
    of subject: SubjectID, except kept: SessionID?, because why: Session.End, at now: Timestamp
  ) async throws(StorageError) -> [EndedSession] {
    try await db.all(
      """
      \(Self.setEnded)
      WHERE sub = $3 AND ended_at IS NULL AND sid IS DISTINCT FROM $4
      RETURNING sid, sub
      """,
      .time(now), .integer(why.rawValue), .id(subject), .optional(kept?.bytes)
    ) { row throws(StorageError) in
      EndedSession(id: try row.id(0), subject: try row.id(1), why: why, at: now)
    }
  }

  func end(
    of subject: SubjectID, onDevice keyThumbprint: String, because why: Session.End, at now: Timestamp
  ) async throws(StorageError) -> [EndedSession] {
    try await db.all(
      """
      \(Self.setEnded)
      WHERE sub = $3 AND ended_at IS NULL AND device_key = $4
      RETURNING sid, sub
      """,
      .time(now), .integer(why.rawValue), .id(subject), .text(keyThumbprint)
    ) { row throws(StorageError) in
      EndedSession(id: try row.id(0), subject: try row.id(1), why: why, at: now)
    }
  }

  func end(
    begunUntil time: Timestamp, limit: Int, because why: Session.End, at now: Timestamp
  ) async throws(StorageError) -> [EndedSession] {
    var ended: [EndedSession] = []
    // Those that somebody else ended meanwhile are not counted, so that who ends all of them knows when none is left.
    while ended.count < limit {
      let more = try await db.all(
        Self.endBegun, .time(now), .integer(why.rawValue), .time(time), .integer(limit - ended.count)
      ) { row throws(StorageError) in
        EndedSession(id: try row.id(0), subject: try row.id(1), why: why, at: now)
      }
      if more.isEmpty { break }
      ended += more
    }
    return ended
  }

  private static let endBegun = """
    WITH begun AS MATERIALIZED (
      SELECT sid FROM sessions WHERE ended_at IS NULL AND idle_expires_at > $1 AND began_at <= $3
      LIMIT $4 FOR UPDATE)
    \(setEnded) FROM begun WHERE sessions.sid = begun.sid
    RETURNING sessions.sid, sessions.sub
    """

  func changeDevice(of subject: SubjectID, _ keyThumbprint: String, to other: String) async throws(StorageError) -> Int
  {
    try await db.change(
      """
      UPDATE sessions SET device_key = $2, bound_key = CASE WHEN bound_key = $1 THEN $2 ELSE bound_key END
      WHERE sub = $3 AND device_key = $1 AND ended_at IS NULL
      """,
      .text(keyThumbprint), .text(other), .id(subject)
    )
  }

  static let selectLeftDevice = """
    SELECT device_key FROM sessions
    WHERE ended_at = $1 AND sub = $2 AND end_reason = $3 AND device_key IS NOT NULL LIMIT 1
    """

  func device(
    of subject: SubjectID, leftAt time: Timestamp, because why: Session.End
  ) async throws(StorageError) -> String? {
    try await db.first(Self.selectLeftDevice, .time(time), .id(subject), .integer(why.rawValue)) { $0.text(0) }
  }

  /// With what a session was granted by and what it came of: revoking that ends nothing any more.
  private static func remove(_ over: String) -> String {
    """
    WITH over AS MATERIALIZED (\(over) LIMIT $2 FOR UPDATE SKIP LOCKED),
      grants AS (DELETE FROM qr_grants USING over WHERE qr_grants.sid = over.sid RETURNING 1),
      origins AS (
        DELETE FROM lineage USING over WHERE lineage.descendant = '\\x73'::bytea || uuid_send(over.sid) RETURNING 1),
      gone AS (DELETE FROM sessions USING over WHERE sessions.sid = over.sid RETURNING 1)
    SELECT (SELECT count(*) FROM grants) + (SELECT count(*) FROM origins) + (SELECT count(*) FROM gone)
    """
  }

  /// Each by the index that finds it.
  private static let removeOver = [
    remove("SELECT sid FROM sessions WHERE ended_at IS NOT NULL AND ended_at < $1 ORDER BY ended_at"),
    remove(
      """
      SELECT sid FROM sessions
      WHERE ended_at IS NULL AND idle_expires_quarter <= $1::bigint / 21600000 AND idle_expires_at < $1::bigint
      ORDER BY idle_expires_quarter, idle_expires_at
      """),
  ]

  func remove(overBefore time: Timestamp, limit: Int) async throws(StorageError) -> Int {
    var count = 0
    for statement in Self.removeOver {
      count += Int(try await db.first(statement, .time(time), .integer(limit)) { $0.integer(0) } ?? 0)
    }
    return count
  }

  func ended(since: Timestamp) async throws(StorageError) -> [EndedSession] {
    try await db.all(
      "SELECT sid, sub, end_reason, ended_at FROM sessions WHERE ended_at IS NOT NULL AND ended_at >= $1", .time(since),
      map: Self.ended)
  }

  /// Of a row with `sid, sub, end_reason, ended_at`.
  static func ended(_ row: PostgreSQLRow) throws(StorageError) -> EndedSession {
    EndedSession(id: try row.id(0), subject: try row.id(1), why: end(row.integer(2)), at: row.timestamp(3))
  }

  /// One that ended for a reason which only a newer release knows has ended all the same.
  private static func end(_ number: Int64) -> Session.End { Session.End(rawValue: number) ?? .revoked }

  static let selectOnDevice = "SELECT 1 FROM sessions WHERE sub = $1 AND device_key = $2 AND NOT is_guest LIMIT 1"

  func wasUsed(_ account: SubjectID, onDevice keyThumbprint: String) async throws(StorageError) -> Bool {
    try await db.first(Self.selectOnDevice, .id(account), .text(keyThumbprint)) { _ in true } ?? false
  }

  func newest(of subject: SubjectID, onDevice keyThumbprint: String) async throws(StorageError) -> Session? {
    try await db.first(
      """
      SELECT \(Self.columns) FROM sessions WHERE sub = $1 AND device_key = $2
      ORDER BY began_at DESC, sid DESC LIMIT 1
      """,
      .id(subject), .text(keyThumbprint), map: Self.map)
  }

  static func map(_ row: PostgreSQLRow) throws(StorageError) -> Session {
    guard let method = SignInMethod(rawValue: row.text(5)) else {
      throw StorageError(.corrupt, operation: "read a session", detail: "unknown method")
    }
    let ending = row.optionalTimestamp(16).map { Session.Ending(at: $0, why: end(row.integer(17))) }
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
      refreshSeed: RedactedSecret(row.bytes(10)),
      beganAt: row.timestamp(19),
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
