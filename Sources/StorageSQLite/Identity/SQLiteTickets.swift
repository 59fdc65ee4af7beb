import LatchkeyModel
import Storage

/// The table `link_tickets`.
struct SQLiteTickets: LinkTicketRows {
  let db: SQLiteConnection

  func put(_ ticket: LinkTicket) throws(StorageError) {
    try db.execute("DELETE FROM link_tickets WHERE guest_sid = ?", .id(ticket.guestSession))
    try db.execute(
      """
      INSERT INTO link_tickets (hash, guest_sid, account_sub, method, account_mask, expires_at, qr_sid, scope,
        proven_at, bound_key, session_expires_at, credential)
      VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
      """,
      .blob(ticket.hash), .id(ticket.guestSession), .id(ticket.account), .text(ticket.authority.method.rawValue),
      .text(ticket.accountMask), .time(ticket.expiry), .optional(ticket.qrSession?.bytes),
      .text(ticket.authority.scope.description), .time(ticket.authority.provenAt),
      .optional(ticket.authority.keyThumbprint), .time(ticket.authority.expiry), .optional(ticket.credential?.bytes)
    )
  }

  func find(_ hash: [UInt8]) throws(StorageError) -> LinkTicket? {
    try db.first(
      """
      SELECT hash, guest_sid, account_sub, method, account_mask, expires_at, qr_sid, scope, proven_at, bound_key,
        session_expires_at, credential FROM link_tickets
      WHERE hash = ?
      """,
      .blob(hash)
    ) { row throws(StorageError) in
      guard let method = SignInMethod(rawValue: row.text(3)) else {
        throw StorageError(.corrupt, operation: "read a ticket", detail: "unknown method")
      }
      return LinkTicket(
        hash: row.blob(0),
        guestSession: try row.id(1),
        account: try row.id(2),
        authority: Authority(
          scope: try row.parsed(7), method: method, provenBy: method.proofReferences.isEmpty ? nil : method,
          provenAt: row.timestamp(8), keyThumbprint: row.optionalText(9),
          expiry: row.timestamp(10)),
        credential: row.isNull(11) ? nil : LineageMember(bytes: row.blob(11), in: row.cell),
        accountMask: row.text(4),
        qrSession: try row.optionalID(6),
        expiry: row.timestamp(5)
      )
    }
  }

  func lock(_ hash: [UInt8]) throws(StorageError) -> LinkTicket? { try find(hash) }

  func remove(_ hash: [UInt8]) throws(StorageError) {
    try db.execute("DELETE FROM link_tickets WHERE hash = ?", .blob(hash))
  }

  func remove(of account: SubjectID) throws(StorageError) {
    try db.execute("DELETE FROM link_tickets WHERE account_sub = ?", .id(account))
  }

  static let removeExpired = """
    DELETE FROM link_tickets WHERE hash IN
      (SELECT hash FROM link_tickets WHERE expires_at < ? ORDER BY expires_at LIMIT ?)
    """

  func remove(expiredBefore time: Timestamp, limit: Int) throws(StorageError) -> Int {
    try db.execute(Self.removeExpired, .time(time), .integer(limit))
  }
}
