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
    var sequence = last?.sequence ?? 0
    var link = last?.link ?? AuditChain.origin
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
