import LatchkeyModel
import Storage

/// Statements and mapping of the table `link_tickets`.
enum TicketRow {
  static func keep(_ ticket: LinkTicket, in db: SQLiteConnection) throws(StorageError) {
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
      .optional(ticket.authority.keyThumbprint), .time(ticket.authority.expiry), .optional(ticket.credential)
    )
  }

  /// The ticket; nil when it is void, not this guest session's, or has expired.
  static func find(
    _ hash: [UInt8], of guestSession: SessionID, at now: Timestamp, in db: SQLiteConnection
  ) throws(StorageError) -> LinkTicket? {
    try db.first(
      """
      SELECT hash, guest_sid, account_sub, method, account_mask, expires_at, qr_sid, scope, proven_at, bound_key,
        session_expires_at, credential FROM link_tickets
      WHERE hash = ? AND guest_sid = ? AND expires_at > ?
      """,
      .blob(hash), .id(guestSession), .time(now)
    ) { row throws(StorageError) in
      guard let method = SignInMethod(rawValue: row.text(3)) else {
        throw StorageError(.corrupt, operation: "read a ticket", detail: "unknown method")
      }
      return LinkTicket(
        hash: row.blob(0),
        guestSession: try row.id(1),
        account: try row.id(2),
        authority: Authority(
          scope: try row.parsed(7), method: method, provenAt: row.timestamp(8), keyThumbprint: row.optionalText(9),
          expiry: row.timestamp(10)),
        credential: row.isNull(11) ? nil : row.blob(11),
        accountMask: row.text(4),
        qrSession: try row.optionalID(6),
        expiry: row.timestamp(5)
      )
    }
  }

  static func void(_ hash: [UInt8], in db: SQLiteConnection) throws(StorageError) {
    try db.execute("DELETE FROM link_tickets WHERE hash = ?", .blob(hash))
  }

  /// What leads to the account changed: no ticket of before is worth anything.
  static func voidAll(of account: SubjectID, in db: SQLiteConnection) throws(StorageError) {
    try db.execute("DELETE FROM link_tickets WHERE account_sub = ?", .id(account))
  }
}
