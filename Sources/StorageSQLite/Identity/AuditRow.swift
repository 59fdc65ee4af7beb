import LatchkeyModel
import Storage

/// Statements and mapping of the table `audit_events`.
enum AuditRow {
  private static let columns = "seq, kind, at, sub, sid, address, detail, link"

  /// Appends to the chain, inside the transaction of what the events tell about.
  static func append(_ notes: [AuditNote], _ chain: AuditChain, in db: SQLiteConnection) throws(StorageError) {
    guard !notes.isEmpty else { return }
    let last = try db.first("SELECT seq, link FROM audit_events ORDER BY seq DESC LIMIT 1") { row in
      (sequence: row.integer(0), link: row.blob(1))
    }
    var (sequence, link) = last ?? (0, AuditChain.origin)
    if last == nil, let checkpoint = try checkpoint(in: db) {
      (sequence, link) = (checkpoint.sequence, checkpoint.link)
    }
    for note in notes {
      sequence += 1
      link = chain.link(after: link, sequence: sequence, note)
      try db.execute(
        "INSERT INTO audit_events (\(columns)) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        .integer(sequence), .text(note.kind.rawValue), .time(note.at), .optional(note.subject?.bytes),
        .optional(note.session?.bytes), .text(note.address), .text(note.detail), .blob(link)
      )
    }
  }

  static func checkpoint(in db: SQLiteConnection) throws(StorageError) -> AuditCheckpoint? {
    try db.first("SELECT seq, link, seal FROM audit_checkpoints ORDER BY seq DESC LIMIT 1") { row in
      AuditCheckpoint(sequence: row.integer(0), link: row.blob(1), seal: row.blob(2))
    }
  }

  /// Forgets the oldest events. Only a run of them from the beginning, so that the rest is still a chain: an old event
  /// behind a newer one, which a clock that was set back makes, waits for that one.
  static func trim(
    before time: Timestamp, limit: Int, at now: Timestamp, _ chain: AuditChain, in db: SQLiteConnection
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

  static func events(
    after sequence: Int64, of subject: SubjectID?, limit: Int, in db: SQLiteConnection
  ) throws(StorageError) -> [AuditEvent] {
    if let subject {
      return try db.all(
        "SELECT \(columns) FROM audit_events WHERE sub = ? AND seq > ? ORDER BY seq LIMIT ?",
        .id(subject), .integer(sequence), .integer(limit), map: map)
    }
    return try db.all(
      "SELECT \(columns) FROM audit_events WHERE seq > ? ORDER BY seq LIMIT ?", .integer(sequence), .integer(limit),
      map: map)
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
