import LatchkeyModel
import Storage

/// The tables `audit_events` and `audit_checkpoints`.
///
/// The engine has one writer, who needs one chain: 0, in which an event's number is its place. A log that was moved here from
/// an engine with several keeps them, and goes on with the one of its last event.
struct SQLiteAudit: AuditRows {
  let db: SQLiteConnection

  private static let columns = "seq, kind, at, sub, sid, address, detail, link, chain, number"

  func lockEnd() throws(StorageError) -> AuditEnd {
    if let last = try last() { return AuditEnd(last) }
    // Of a log that was forgotten to its end: where it ended last.
    return try db.first("\(Self.selectCheckpoints) ORDER BY at DESC, chain LIMIT 1", map: Self.mapCheckpoint)?.end
      ?? AuditEnd()
  }

  private func last() throws(StorageError) -> AuditEvent? {
    try db.first("SELECT \(Self.columns) FROM audit_events ORDER BY seq DESC LIMIT 1", map: Self.map)
  }

  func insert(_ events: [AuditEvent]) throws(StorageError) {
    try db.execute(
      "INSERT INTO audit_events (\(Self.columns)) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", forEach: events
    ) { event in
      let note = event.note
      // In a chain of elsewhere the next place is whatever follows.
      let isOwn = event.chain == 0
      return [
        isOwn ? .integer(event.number) : .null, .text(note.kind.rawValue), .time(note.at),
        .optional(note.subject?.bytes), .optional(note.session?.bytes), .text(note.address), .text(note.detail),
        .blob(event.link), isOwn ? .null : .integer(event.chain), isOwn ? .null : .integer(event.number),
      ]
    }
  }

  // From chain to chain by the index, and of each the last row.
  private static let selectOtherEnds = """
    WITH RECURSIVE others (chain) AS (
      SELECT min(chain) FROM audit_events WHERE chain IS NOT NULL
      UNION ALL SELECT (SELECT min(chain) FROM audit_events WHERE chain > others.chain) FROM others
      WHERE others.chain IS NOT NULL
    )
    SELECT \(columns) FROM audit_events JOIN others USING (chain)
    WHERE number = (SELECT max(number) FROM audit_events AS same WHERE same.chain = others.chain)
    """

  func ends() throws(StorageError) -> [AuditEnd] {
    var ends = try db.all(Self.selectOtherEnds, map: Self.map).map { AuditEnd($0) }
    let own = try db.first(
      "SELECT \(Self.columns) FROM audit_events WHERE chain IS NULL ORDER BY seq DESC LIMIT 1", map: Self.map)
    if let own { ends.append(AuditEnd(own)) }
    let known = Set(ends.map(\.chain))
    ends += try checkpoints().map(\.end).filter { !known.contains($0.chain) }
    return ends.sorted { $0.chain < $1.chain }
  }

  /// What is looked at after a start, for the ends of those that came from elsewhere.
  private static let recent: Int64 = 50_000

  /// Chains that came from elsewhere do not grow: once their ends are recorded there is nothing more to record.
  func unsealed(after sequence: Int64?) throws(StorageError) -> [AuditEvent] {
    guard sequence == nil, let last = try last() else { return [] }
    return try db.all(Self.selectOtherEnds, map: Self.map)
      .filter { $0.chain != last.chain && $0.sequence > last.sequence - Self.recent }
  }

  private static let selectCheckpoints = "SELECT chain, seq, link, seal FROM audit_checkpoints"

  func checkpoints() throws(StorageError) -> [AuditCheckpoint] {
    try db.all("\(Self.selectCheckpoints) ORDER BY chain", map: Self.mapCheckpoint)
  }

  func checkpoint(of chain: Int64) throws(StorageError) -> AuditCheckpoint? {
    try db.first("\(Self.selectCheckpoints) WHERE chain = ?", .integer(chain), map: Self.mapCheckpoint)
  }

  private static func mapCheckpoint(_ row: SQLiteRow) -> AuditCheckpoint {
    AuditCheckpoint(chain: row.integer(0), number: row.integer(1), link: row.blob(2), seal: row.blob(3))
  }

  func count(of kind: AuditNote.Kind) throws(StorageError) -> Int {
    let count = try db.first("SELECT count(*) FROM audit_events WHERE kind = ?", .text(kind.rawValue)) {
      $0.integer(0)
    }
    return Int(count ?? 0)
  }

  func remove(of chain: Int64, through number: Int64) throws(StorageError) {
    if chain == 0 {
      try db.execute("DELETE FROM audit_events WHERE seq <= ? AND chain IS NULL", .integer(number))
    } else {
      try db.execute("DELETE FROM audit_events WHERE chain = ? AND number <= ?", .integer(chain), .integer(number))
    }
  }

  func put(_ checkpoint: AuditCheckpoint, at now: Timestamp) throws(StorageError) {
    try db.execute(
      "INSERT OR REPLACE INTO audit_checkpoints (chain, seq, link, seal, at) VALUES (?, ?, ?, ?, ?)",
      .integer(checkpoint.chain), .integer(checkpoint.number), .blob(checkpoint.link), .blob(checkpoint.seal),
      .time(now))
  }

  func removeCheckpoints(before time: Timestamp) throws(StorageError) {
    // The file's own chain is gone on with, if it is, from what is kept of it.
    try db.execute(
      """
      DELETE FROM audit_checkpoints
      WHERE at < ? AND chain <> 0 AND NOT EXISTS (SELECT 1 FROM audit_events WHERE chain = audit_checkpoints.chain)
      """, .time(time))
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

  func events(of chain: Int64, after number: Int64, limit: Int) throws(StorageError) -> [AuditEvent] {
    if chain == 0 {
      return try db.all(
        "SELECT \(Self.columns) FROM audit_events WHERE chain IS NULL AND seq > ? ORDER BY seq LIMIT ?",
        .integer(number), .integer(limit), map: Self.map)
    }
    return try db.all(
      "SELECT \(Self.columns) FROM audit_events WHERE chain = ? AND number > ? ORDER BY number LIMIT ?",
      .integer(chain), .integer(number), .integer(limit), map: Self.map)
  }

  private static func map(_ row: SQLiteRow) throws(StorageError) -> AuditEvent {
    let place = row.integer(0)
    return AuditEvent(
      sequence: place, chain: row.optionalInteger(8) ?? 0, number: row.optionalInteger(9) ?? place,
      note: AuditNote(
        AuditNote.Kind(rawValue: row.text(1)), at: row.timestamp(2), subject: try row.optionalID(3),
        session: try row.optionalID(4), address: row.text(5), detail: row.text(6)),
      link: row.blob(7)
    )
  }
}
