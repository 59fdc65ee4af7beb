import LatchkeyModel
import Storage

/// The table `subjects`.
struct PostgreSQLSubjects: SubjectRows {
  let db: PostgreSQLConnection

  private static let select = """
    SELECT sub, kind, merged_into, created_at, nickname, avatar_url, locale, disabled_at, deleted_at
    FROM subjects WHERE sub = $1
    """

  func find(_ id: SubjectID) async throws(StorageError) -> Subject? {
    try await db.first(Self.select, .id(id), map: Self.map)
  }

  /// Ids are made of chance, so nobody makes the row of one that is not there.
  func lock(_ id: SubjectID) async throws(StorageError) -> Subject? {
    try await db.first("\(Self.select) FOR UPDATE", .id(id), map: Self.map)
  }

  private static func map(_ row: PostgreSQLRow) throws(StorageError) -> Subject {
    let kind: Subject.Kind
    switch row.integer(1) {
    case _ where !row.isNull(8): kind = .deleted
    case 0: kind = .guest
    case 1: kind = .account
    default: kind = .merged(into: try row.id(2))
    }
    return Subject(
      id: try row.id(0),
      kind: kind,
      createdAt: row.timestamp(3),
      profile: Profile(
        nickname: row.optionalText(4).flatMap { Nickname($0) },
        avatarURL: row.optionalText(5),
        locale: row.optionalText(6).flatMap { LanguageTag($0) }
      ),
      disabledAt: row.optionalTimestamp(7)
    )
  }

  private static let insert = PostgreSQLInsert(
    into: "subjects",
    [
      "sub": .id, "kind": .integer, "merged_into": .id, "nickname": .text, "avatar_url": .text, "locale": .text,
      "created_at": .integer, "last_seen_at": .integer,
    ])

  func insert(_ subject: Subject) async throws(StorageError) {
    let row: [PostgreSQLValue] = [
      .bytes(subject.id.bytes),
      .integer(Self.code(subject.kind)),
      .optional(Self.mergedInto(subject.kind)?.bytes),
      .optional(subject.profile.nickname?.description),
      .optional(subject.profile.avatarURL),
      .optional(subject.profile.locale?.description),
      .time(subject.createdAt),
      .time(subject.createdAt),
    ]
    try await db.add([row], by: Self.insert)
  }

  func change(_ subject: Subject, usedAt now: Timestamp) async throws(StorageError) {
    try await db.execute(
      """
      UPDATE subjects SET kind = $1, merged_into = $2, nickname = $3, avatar_url = $4, locale = $5, last_seen_at = $6
      WHERE sub = $7
      """,
      .integer(Self.code(subject.kind)),
      .optional(Self.mergedInto(subject.kind)?.bytes),
      .optional(subject.profile.nickname?.description),
      .optional(subject.profile.avatarURL),
      .optional(subject.profile.locale?.description),
      .time(now),
      .bytes(subject.id.bytes)
    )
  }

  func change(_ id: SubjectID, usedAt now: Timestamp) async throws(StorageError) {
    try await db.execute("UPDATE subjects SET last_seen_at = $1 WHERE sub = $2", .time(now), .bytes(id.bytes))
  }

  func standing(of id: SubjectID) async throws(StorageError) -> SubjectStanding? {
    guard let subject = try await find(id) else { return nil }
    return try await db.first("SELECT last_seen_at, exported_at FROM subjects WHERE sub = $1", .id(id)) { row in
      SubjectStanding(
        subject: subject, lastSeenAt: row.timestamp(0),
        exportedAt: row.optionalInteger(1).map { Timestamp(millisecondsSinceEpoch: $0) })
    }
  }

  func countGuests() async throws(StorageError) -> Int {
    Int(
      try await db.first("SELECT count(*) FROM subjects WHERE kind = 0 AND deleted_at IS NULL") { $0.integer(0) } ?? 0)
  }

  func unusedGuests(
    before time: Timestamp, after last: UnusedGuest?, limit: Int
  ) async throws(StorageError) -> [UnusedGuest] {
    try await db.all(
      """
      SELECT sub, last_seen_at, exported_version FROM subjects
      WHERE kind = 0 AND deleted_at IS NULL AND last_seen_at < $1::bigint AND (last_seen_at, sub) > ($2::bigint, $3)
        AND last_seen_hour BETWEEN $2::bigint / 3600000 AND $1::bigint / 3600000
      ORDER BY last_seen_hour, last_seen_at, sub LIMIT $4
      """,
      .time(time), .integer(last?.lastSeenAt.millisecondsSinceEpoch ?? .min),
      .bytes(last?.id.bytes ?? [UInt8](repeating: 0, count: 16)),
      .integer(limit)
    ) { row throws(StorageError) in
      UnusedGuest(id: try row.id(0), lastSeenAt: row.timestamp(1), exportedVersion: row.optionalInteger(2))
    }
  }

  func change(_ id: SubjectID, disabledAt time: Timestamp?) async throws(StorageError) {
    try await db.execute(
      "UPDATE subjects SET disabled_at = $1 WHERE sub = $2", .optional(time?.millisecondsSinceEpoch), .id(id))
  }

  func change(_ id: SubjectID, exportedAt time: Timestamp, recordsVersion: Int64) async throws(StorageError) {
    try await db.execute(
      "UPDATE subjects SET exported_at = $1, exported_version = $2 WHERE sub = $3",
      .time(time), .integer(recordsVersion), .id(id))
  }

  func change(_ id: SubjectID, deletedAt time: Timestamp) async throws(StorageError) {
    try await db.execute(
      "UPDATE subjects SET deleted_at = $1, nickname = NULL, avatar_url = NULL, locale = NULL WHERE sub = $2",
      .time(time), .id(id))
  }

  private static func code(_ kind: Subject.Kind) -> Int64 {
    switch kind {
    case .guest: 0
    case .account: 1
    case .merged: 2
    // Deleting writes its own column; nothing else is changed of who is deleted.
    case .deleted: preconditionFailure("a deleted subject is not written")
    }
  }

  private static func mergedInto(_ kind: Subject.Kind) -> SubjectID? {
    if case .merged(let account) = kind { account } else { nil }
  }
}
