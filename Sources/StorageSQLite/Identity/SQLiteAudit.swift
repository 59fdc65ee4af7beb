import LatchkeyModel
import Storage

/// The tables `audit_events` and `audit_checkpoints`.
struct SQLiteAudit: AuditRows {
  let db: SQLiteConnection

  private static let columns = "seq, kind, at, sub, sid, address, detail, link"

  func lockLast() throws(StorageError) -> (sequence: Int64, link: [UInt8])? {
    let last = try db.first("SELECT seq, link FROM audit_events ORDER BY seq DESC LIMIT 1") { row in
      (sequence: row.integer(0), link: row.blob(1))
    }
    if let last { return last }
    return try checkpoint().map { ($0.sequence, $0.link) }
  }

  func insert(_ event: AuditEvent) throws(StorageError) {
    let note = event.note
    try db.execute(
      "INSERT INTO audit_events (\(Self.columns)) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
      .integer(event.sequence), .text(note.kind.rawValue), .time(note.at), .optional(note.subject?.bytes),
      .optional(note.session?.bytes), .text(note.address), .text(note.detail), .blob(event.link)
    )
  }

  func checkpoint() throws(StorageError) -> AuditCheckpoint? {
    try db.first("SELECT seq, link, seal FROM audit_checkpoints ORDER BY seq DESC LIMIT 1") { row in
      AuditCheckpoint(sequence: row.integer(0), link: row.blob(1), seal: row.blob(2))
    }
  }

  /// Forgets the oldest events. Only a run of them from the beginning, so that the rest is still a chain: an old event
  /// behind a newer one, which a clock that was set back makes, waits for that one.
  func trim(
    before time: Timestamp, limit: Int, at now: Timestamp, _ chain: AuditChain
  ) throws(StorageError) -> Int {
    let oldest = try db.all("SELECT seq, at, link FROM audit_events ORDER BY seq LIMIT ?", .integer(limit)) { row in
      (sequence: row.integer(0), at: row.timestamp(1), link: row.blob(2))
    }
    guard let last = oldest.prefix(while: { $0.at < time }).last else { return 0 }
    let count = try db.execute("DELETE FROM audit_events WHERE seq <= ?", .integer(last.sequence))
    try db.execute("DELETE FROM audit_checkpoints")
    try db.execute(
      "INSERT INTO audit_checkpoints (seq, link, seal, at) VALUES (?, ?, ?, ?)",
      .integer(last.sequence), .blob(last.link), .blob(chain.seal(sequence: last.sequence, link: last.link)), .time(now)
    )
    return count
  }

  func events(
    after sequence: Int64, of subject: SubjectID?, limit: Int
  ) throws(StorageError) -> [AuditEvent] {
    if let subject {
      return try db.all(
        "SELECT \(Self.columns) FROM audit_events WHERE sub = ? AND seq > ? ORDER BY seq LIMIT ?",
        .id(subject), .integer(sequence), .integer(limit), map: Self.map)
    }
    return try db.all(
      "SELECT \(Self.columns) FROM audit_events WHERE seq > ? ORDER BY seq LIMIT ?", .integer(sequence),
      .integer(limit),
      map: Self.map)
  }

  private static func map(_ row: SQLiteRow) throws(StorageError) -> AuditEvent {
    guard let kind = AuditNote.Kind(rawValue: row.text(1)) else {
      throw StorageError(.corrupt, operation: "read an audit event", detail: "unknown kind")
    }
    return AuditEvent(
      sequence: row.integer(0),
      note: AuditNote(
        kind, at: row.timestamp(2), subject: try row.optionalID(3), session: try row.optionalID(4),
        address: row.text(5), detail: row.text(6)),
      link: row.blob(7)
    )
  }
}
