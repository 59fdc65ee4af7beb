import LatchkeyModel
import Storage

/// The table `subjects`.
struct SQLiteSubjects: SubjectRows {
  let db: SQLiteConnection

  private static let select = """
    SELECT sub, kind, merged_into, created_at, nickname, avatar_url, locale, disabled_at, deleted_at
    FROM subjects WHERE sub = ?
    """

  func find(_ id: SubjectID) throws(StorageError) -> Subject? {
    try db.first(Self.select, .blob(id.bytes)) { row throws(StorageError) in
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
        disabledAt: row.optionalInteger(7).map { Timestamp(millisecondsSinceEpoch: $0) }
      )
    }
  }

  func lock(_ id: SubjectID) throws(StorageError) -> Subject? { try find(id) }

  func insert(_ subject: Subject) throws(StorageError) {
    try db.execute(
      """
      INSERT INTO subjects (sub, kind, merged_into, nickname, avatar_url, locale, created_at, last_seen_at)
      VALUES (?, ?, ?, ?, ?, ?, ?, ?)
      """,
      .blob(subject.id.bytes),
      .integer(Self.code(subject.kind)),
      .optional(Self.mergedInto(subject.kind)?.bytes),
      .optional(subject.profile.nickname?.description),
      .optional(subject.profile.avatarURL),
      .optional(subject.profile.locale?.description),
      .time(subject.createdAt),
      .time(subject.createdAt)
    )
  }

  func change(_ subject: Subject, usedAt now: Timestamp) throws(StorageError) {
    try db.execute(
      """
      UPDATE subjects SET kind = ?, merged_into = ?, nickname = ?, avatar_url = ?, locale = ?, last_seen_at = ?
      WHERE sub = ?
      """,
      .integer(Self.code(subject.kind)),
      .optional(Self.mergedInto(subject.kind)?.bytes),
      .optional(subject.profile.nickname?.description),
      .optional(subject.profile.avatarURL),
      .optional(subject.profile.locale?.description),
      .time(now),
      .blob(subject.id.bytes)
    )
  }

  func change(_ id: SubjectID, usedAt now: Timestamp) throws(StorageError) {
    try db.execute("UPDATE subjects SET last_seen_at = ? WHERE sub = ?", .time(now), .blob(id.bytes))
  }

  func standing(of id: SubjectID) throws(StorageError) -> SubjectStanding? {
    guard let subject = try find(id) else { return nil }
    return try db.first("SELECT last_seen_at, exported_at FROM subjects WHERE sub = ?", .id(id)) { row in
      SubjectStanding(
        subject: subject, lastSeenAt: row.timestamp(0),
        exportedAt: row.optionalInteger(1).map { Timestamp(millisecondsSinceEpoch: $0) })
    }
  }

  func countGuests() throws(StorageError) -> Int {
    Int(try db.first("SELECT count(*) FROM subjects WHERE kind = 0 AND deleted_at IS NULL") { $0.integer(0) } ?? 0)
  }

  func unusedGuests(
    before time: Timestamp, after last: UnusedGuest?, limit: Int
  ) throws(StorageError) -> [UnusedGuest] {
    try db.all(
      """
      SELECT sub, last_seen_at, exported_version FROM subjects
      WHERE kind = 0 AND deleted_at IS NULL AND last_seen_at < ?1 AND (last_seen_at, sub) > (?2, ?3)
      ORDER BY last_seen_at, sub LIMIT ?4
      """,
      .time(time), .integer(last?.lastSeenAt.millisecondsSinceEpoch ?? .min), .blob(last?.id.bytes ?? []),
      .integer(limit)
    ) { row throws(StorageError) in
      UnusedGuest(id: try row.id(0), lastSeenAt: row.timestamp(1), exportedVersion: row.optionalInteger(2))
    }
  }

  func change(_ id: SubjectID, disabledAt time: Timestamp?) throws(StorageError) {
    try db.execute(
      "UPDATE subjects SET disabled_at = ? WHERE sub = ?", .optional(time?.millisecondsSinceEpoch), .id(id))
  }

  func change(_ id: SubjectID, exportedAt time: Timestamp, recordsVersion: Int64) throws(StorageError) {
    try db.execute(
      "UPDATE subjects SET exported_at = ?, exported_version = ? WHERE sub = ?",
      .time(time), .integer(recordsVersion), .id(id))
  }

  func change(_ id: SubjectID, deletedAt time: Timestamp) throws(StorageError) {
    try db.execute(
      "UPDATE subjects SET deleted_at = ?, nickname = NULL, avatar_url = NULL, locale = NULL WHERE sub = ?",
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
