import LatchkeyModel
import Storage

/// The tables `audit_events` and `audit_checkpoints`: one chain, for the engine has one writer.
struct SQLiteAudit: AuditRows {
  let db: SQLiteConnection

  private static let columns = "seq, kind, at, sub, sid, address, detail, link"

  func lockEnd() throws(StorageError) -> AuditEnd {
    let last = try db.first("SELECT seq, link FROM audit_events ORDER BY seq DESC LIMIT 1") { row in
      AuditEnd(number: row.integer(0), link: row.blob(1))
    }
    if let last { return last }
    return try checkpoint(of: 0)?.end ?? AuditEnd()
  }

  func insert(_ events: [AuditEvent]) throws(StorageError) {
    try db.execute(
      "INSERT INTO audit_events (\(Self.columns)) VALUES (?, ?, ?, ?, ?, ?, ?, ?)", forEach: events
    ) { event in
      let note = event.note
      return [
        .integer(event.number), .text(note.kind.rawValue), .time(note.at), .optional(note.subject?.bytes),
        .optional(note.session?.bytes), .text(note.address), .text(note.detail), .blob(event.link),
      ]
    }
  }

  func ends() throws(StorageError) -> [AuditEnd] {
    let end = try lockEnd()
    return end.number == 0 ? [] : [end]
  }

  func unsealed(after sequence: Int64?) -> [AuditEvent] { [] }

  func checkpoints() throws(StorageError) -> [AuditCheckpoint] { try checkpoint(of: 0).map { [$0] } ?? [] }

  func checkpoint(of chain: Int64) throws(StorageError) -> AuditCheckpoint? {
    guard chain == 0 else { return nil }
    return try db.first("SELECT seq, link, seal FROM audit_checkpoints ORDER BY seq DESC LIMIT 1") { row in
      AuditCheckpoint(number: row.integer(0), link: row.blob(1), seal: row.blob(2))
    }
  }

  func count(of kind: AuditNote.Kind) throws(StorageError) -> Int {
    let count = try db.first("SELECT count(*) FROM audit_events WHERE kind = ?", .text(kind.rawValue)) {
      $0.integer(0)
    }
    return Int(count ?? 0)
  }

  func remove(of chain: Int64, through number: Int64) throws(StorageError) {
    if chain == 0 { try db.execute("DELETE FROM audit_events WHERE seq <= ?", .integer(number)) }
  }

  func put(_ checkpoint: AuditCheckpoint, at now: Timestamp) throws(StorageError) {
    try db.execute("DELETE FROM audit_checkpoints")
    try db.execute(
      "INSERT INTO audit_checkpoints (seq, link, seal, at) VALUES (?, ?, ?, ?)",
      .integer(checkpoint.number), .blob(checkpoint.link), .blob(checkpoint.seal), .time(now))
  }

  func removeCheckpoints(before time: Timestamp) {}

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

  func events(of chain: Int64, after number: Int64, limit: Int) throws(StorageError) -> [AuditEvent] {
    chain == 0 ? try events(after: number, of: nil, limit: limit) : []
  }

  private static func map(_ row: SQLiteRow) throws(StorageError) -> AuditEvent {
    AuditEvent(
      sequence: row.integer(0),
      note: AuditNote(
        AuditNote.Kind(rawValue: row.text(1)), at: row.timestamp(2), subject: try row.optionalID(3),
        session: try row.optionalID(4), address: row.text(5), detail: row.text(6)),
      link: row.blob(7)
    )
  }
}
