import LatchkeyModel
import Storage

/// The tables `audit_events` and `audit_checkpoints`.
///
/// Each connection has a chain of its own: it runs one transaction at a time, so that nobody ever waits for the end of a
/// chain. A connection that is made anew begins another one, for the last transaction of the one before may yet be
/// committed.
struct PostgreSQLAudit: AuditRows {
  let db: PostgreSQLConnection

  private static let columns = "place, kind, at, sub, sid, address, detail, link, chain, seq"

  /// Nobody else appends to the connection's chain.
  func lockEnd() async throws(StorageError) -> AuditEnd {
    if let end = db.knownChainEnd { return end }
    let last = try await db.first(
      "SELECT chain, seq, link FROM audit_events WHERE chain = $1 ORDER BY seq DESC LIMIT 1", .integer(db.chain),
      map: Self.mapEnd)
    let end = if let last { last } else { try await checkpoint(of: db.chain)?.end ?? AuditEnd(chain: db.chain) }
    // Another operation of the transaction may have been faster.
    return db.knownChainEnd ?? end
  }

  // In the order of the chain, which that of the places is then as well.
  private static let insert = PostgreSQLInsert(
    into: "audit_events",
    [
      "chain": .integer, "seq": .integer, "kind": .text, "at": .integer, "sub": .id, "sid": .id, "address": .text,
      "detail": .text, "link": .bytes,
    ],
    by: "chain, seq")

  func insert(_ events: [AuditEvent]) async throws(StorageError) {
    guard let last = events.last else { return }
    db.chainEnds(at: AuditEnd(last))
    try await db.add(
      events.map { event in
        let note = event.note
        return [
          .integer(event.chain), .integer(event.number), .text(note.kind.rawValue), .time(note.at),
          .optional(note.subject?.bytes), .optional(note.session?.bytes), .text(note.address), .text(note.detail),
          .bytes(event.link),
        ]
      }, by: Self.insert)
  }

  // From chain to chain by the index, and of each the last row.
  private static let selectEnds = """
    WITH RECURSIVE chains (chain) AS (
      SELECT min(chain) FROM audit_events
      UNION ALL SELECT (SELECT min(chain) FROM audit_events WHERE chain > chains.chain) FROM chains
      WHERE chains.chain IS NOT NULL
    )
    SELECT last.chain, last.seq, last.link FROM chains CROSS JOIN LATERAL (
      SELECT chain, seq, link FROM audit_events WHERE chain = chains.chain ORDER BY seq DESC LIMIT 1
    ) AS last
    UNION ALL SELECT chain, seq, link FROM audit_checkpoints
    WHERE NOT EXISTS (SELECT 1 FROM audit_events WHERE chain = audit_checkpoints.chain)
    ORDER BY 1
    """

  func ends() async throws(StorageError) -> [AuditEnd] { try await db.all(Self.selectEnds, map: Self.mapEnd) }

  private static func mapEnd(_ row: PostgreSQLRow) -> AuditEnd {
    AuditEnd(chain: row.integer(0), number: row.integer(1), link: row.bytes(2))
  }

  /// What is looked at by an instance that has just started, for the ends of those that died.
  private static let recent = 50_000

  private static let selectUnsealed = """
    SELECT DISTINCT ON (chain) \(columns) FROM audit_events
    WHERE place > coalesce($1, (SELECT max(place) FROM audit_events) - \(recent)) AND kind <> $2
    ORDER BY chain, seq DESC
    """

  func unsealed(after sequence: Int64?) async throws(StorageError) -> [AuditEvent] {
    try await db.all(
      Self.selectUnsealed, sequence.map { .integer($0) } ?? .null, .text(AuditNote.Kind.logSealed.rawValue),
      map: Self.map)
  }

  func count(of kind: AuditNote.Kind) async throws(StorageError) -> Int {
    let count = try await db.first("SELECT count(*) FROM audit_events WHERE kind = $1", .text(kind.rawValue)) {
      $0.integer(0)
    }
    return Int(count ?? 0)
  }

  func remove(of chain: Int64, through number: Int64) async throws(StorageError) {
    try await db.execute(
      "DELETE FROM audit_events WHERE chain = $1 AND seq <= $2", .integer(chain), .integer(number))
  }

  private static let selectCheckpoints = "SELECT chain, seq, link, seal FROM audit_checkpoints"

  func checkpoints() async throws(StorageError) -> [AuditCheckpoint] {
    try await db.all("\(Self.selectCheckpoints) ORDER BY chain", map: Self.mapCheckpoint)
  }

  func checkpoint(of chain: Int64) async throws(StorageError) -> AuditCheckpoint? {
    try await db.first("\(Self.selectCheckpoints) WHERE chain = $1", .integer(chain), map: Self.mapCheckpoint)
  }

  private static func mapCheckpoint(_ row: PostgreSQLRow) -> AuditCheckpoint {
    AuditCheckpoint(chain: row.integer(0), number: row.integer(1), link: row.bytes(2), seal: row.bytes(3))
  }

  func put(_ checkpoint: AuditCheckpoint, at now: Timestamp) async throws(StorageError) {
    // Of two instances that trim at once, the one that went further says where the chain begins.
    try await db.execute(
      """
      INSERT INTO audit_checkpoints (chain, seq, link, seal, at) VALUES ($1, $2, $3, $4, $5)
      ON CONFLICT (chain) DO UPDATE SET seq = excluded.seq, link = excluded.link, seal = excluded.seal, at = excluded.at
      WHERE audit_checkpoints.seq < excluded.seq
      """,
      .integer(checkpoint.chain), .integer(checkpoint.number), .bytes(checkpoint.link), .bytes(checkpoint.seal),
      .time(now))
  }

  func removeCheckpoints(before time: Timestamp) async throws(StorageError) {
    try await db.execute(
      """
      DELETE FROM audit_checkpoints
      WHERE at < $1 AND NOT EXISTS (SELECT 1 FROM audit_events WHERE chain = audit_checkpoints.chain)
      """, .time(time))
  }

  func events(
    after sequence: Int64, of subject: SubjectID?, limit: Int
  ) async throws(StorageError) -> [AuditEvent] {
    if let subject {
      return try await db.all(
        "SELECT \(Self.columns) FROM audit_events WHERE sub = $1 AND place > $2 ORDER BY place LIMIT $3",
        .id(subject), .integer(sequence), .integer(limit), map: Self.map)
    }
    return try await db.all(
      "SELECT \(Self.columns) FROM audit_events WHERE place > $1 ORDER BY place LIMIT $2", .integer(sequence),
      .integer(limit),
      map: Self.map)
  }

  func events(of chain: Int64, after number: Int64, limit: Int) async throws(StorageError) -> [AuditEvent] {
    try await db.all(
      "SELECT \(Self.columns) FROM audit_events WHERE chain = $1 AND seq > $2 ORDER BY seq LIMIT $3", .integer(chain),
      .integer(number), .integer(limit), map: Self.map)
  }

  private static func map(_ row: PostgreSQLRow) throws(StorageError) -> AuditEvent {
    AuditEvent(
      sequence: row.integer(0), chain: row.integer(8), number: row.integer(9),
      note: AuditNote(
        AuditNote.Kind(rawValue: row.text(1)), at: row.timestamp(2), subject: try row.optionalID(3),
        session: try row.optionalID(4), address: row.text(5), detail: row.text(6)),
      link: row.bytes(7)
    )
  }
}
