import LatchkeyModel
import Storage

/// The table `link_tickets`.
struct PostgreSQLTickets: LinkTicketRows {
  let db: PostgreSQLConnection

  func put(_ ticket: LinkTicket) async throws(StorageError) {
    try await db.execute(
      """
      INSERT INTO link_tickets (hash, guest_sid, account_sub, method, account_mask, expires_at, qr_sid, scope,
        proven_at, bound_key, session_expires_at, credential)
      VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)
      ON CONFLICT (guest_sid) DO UPDATE SET hash = excluded.hash, account_sub = excluded.account_sub,
        method = excluded.method, account_mask = excluded.account_mask, expires_at = excluded.expires_at,
        qr_sid = excluded.qr_sid, scope = excluded.scope, proven_at = excluded.proven_at,
        bound_key = excluded.bound_key, session_expires_at = excluded.session_expires_at,
        credential = excluded.credential
      """,
      .bytes(ticket.hash), .id(ticket.guestSession), .id(ticket.account), .text(ticket.authority.method.rawValue),
      .text(ticket.accountMask), .time(ticket.expiry), .optional(ticket.qrSession?.bytes),
      .text(ticket.authority.scope.description), .time(ticket.authority.provenAt),
      .optional(ticket.authority.keyThumbprint), .time(ticket.authority.expiry), .optional(ticket.credential?.bytes)
    )
  }

  func find(_ hash: [UInt8]) async throws(StorageError) -> LinkTicket? {
    try await db.first(Self.select, .bytes(hash), map: Self.map)
  }

  private static let select = """
    SELECT hash, guest_sid, account_sub, method, account_mask, expires_at, qr_sid, scope, proven_at, bound_key,
      session_expires_at, credential
    FROM link_tickets WHERE hash = $1
    """

  /// Tickets are made of chance, so nobody makes the row of one that is not there.
  func lock(_ hash: [UInt8]) async throws(StorageError) -> LinkTicket? {
    try await db.first("\(Self.select) FOR UPDATE", .bytes(hash), map: Self.map)
  }

  private static func map(_ row: PostgreSQLRow) throws(StorageError) -> LinkTicket {
    guard let method = SignInMethod(rawValue: row.text(3)) else {
      throw StorageError(.corrupt, operation: "read a ticket", detail: "unknown method")
    }
    return LinkTicket(
      hash: row.bytes(0),
      guestSession: try row.id(1),
      account: try row.id(2),
      authority: Authority(
        scope: try row.parsed(7), method: method, provenBy: method.proofReferences.isEmpty ? nil : method,
        provenAt: row.timestamp(8), keyThumbprint: row.optionalText(9),
        expiry: row.timestamp(10)),
      credential: row.isNull(11) ? nil : LineageMember(bytes: row.bytes(11), in: row.cell),
      accountMask: row.text(4),
      qrSession: try row.optionalID(6),
      expiry: row.timestamp(5)
    )
  }

  func remove(_ hash: [UInt8]) async throws(StorageError) {
    try await db.execute("DELETE FROM link_tickets WHERE hash = $1", .bytes(hash))
  }

  func remove(of account: SubjectID) async throws(StorageError) {
    try await db.execute("DELETE FROM link_tickets WHERE account_sub = $1", .id(account))
  }

  static let removeExpired = """
    WITH old AS MATERIALIZED (
      SELECT hash FROM link_tickets WHERE expires_at < $1 ORDER BY expires_at LIMIT $2 FOR UPDATE SKIP LOCKED)
    DELETE FROM link_tickets USING old WHERE link_tickets.hash = old.hash
    """

  func remove(expiredBefore time: Timestamp, limit: Int) async throws(StorageError) -> Int {
    try await db.change(Self.removeExpired, .time(time), .integer(limit))
  }
}
