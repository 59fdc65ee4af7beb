import LatchkeyModel
import Storage

/// Statements of the table `lineage`: what came of what, through chains of any length (R44).
///
/// Each descendant has a row for each of its ancestors, so that a chain is ended by one look-up, also when links in its
/// middle are over and forgotten. Whoever proves who they are by something that nobody else gave them has no rows.
enum LineageRow {
  enum Member: Equatable {
    case session(SessionID)
    /// By the id of its QR session.
    case code(String)
    case transfer(TransferID)
    case unlock(Unlock.Kind, key: String)
    case identity(AccountIdentifier.Kind, value: String)

    /// A letter for what it is, then its name.
    var bytes: [UInt8] {
      switch self {
      case .session(let id): Array("s".utf8) + id.bytes
      case .code(let id): Array("q\(id)".utf8)
      case .transfer(let id): Array("t".utf8) + id.bytes
      case .unlock(let kind, let key): Array("u\(kind.rawValue) \(key)".utf8)
      case .identity(let kind, let value): Array("i\(kind.rawValue) \(value)".utf8)
      }
    }
  }

  /// Chains longer than this are no person's: each link takes a proof of the owner.
  static let mostAncestors = 64

  static let selectAncestors = "SELECT ancestor FROM lineage WHERE descendant = ?"
  static let selectDescendants = "SELECT descendant FROM lineage WHERE ancestor = ?"

  static func ancestors(of member: [UInt8], in db: SQLiteConnection) throws(StorageError) -> [[UInt8]] {
    try db.all(selectAncestors, .blob(member)) { $0.blob(0) }
  }

  static func isTooDeep(_ member: Member, in db: SQLiteConnection) throws(StorageError) -> Bool {
    try ancestors(of: member.bytes, in: db).count >= mostAncestors
  }

  /// It came of each of these, and of all that those came of.
  static func note(
    _ member: Member, cameOf sources: [Member], in db: SQLiteConnection
  ) throws(StorageError) {
    for source in sources {
      try db.execute(
        "INSERT OR IGNORE INTO lineage (ancestor, descendant) VALUES (?, ?)", .blob(source.bytes), .blob(member.bytes))
      try inherit(member, from: source.bytes, in: db)
    }
  }

  /// It came of all that `source` came of, which itself is no link that anybody ends.
  static func inherit(
    _ member: Member, from source: [UInt8], in db: SQLiteConnection
  ) throws(StorageError) {
    try db.execute(
      "INSERT OR IGNORE INTO lineage (ancestor, descendant) SELECT ancestor, ?2 FROM lineage WHERE descendant = ?1",
      .blob(source), .blob(member.bytes))
  }

  /// The new session stands where the earlier one stood: it came of the same, and what came of the earlier one is its.
  static func replace(
    _ earlier: SessionID, with session: SessionID, in db: SQLiteConnection
  ) throws(StorageError) {
    try inherit(.session(session), from: Member.session(earlier).bytes, in: db)
    try db.execute(
      "INSERT OR IGNORE INTO lineage (ancestor, descendant) SELECT ?2, descendant FROM lineage WHERE ancestor = ?1",
      .blob(Member.session(earlier).bytes), .blob(Member.session(session).bytes))
  }

  static func forget(_ member: Member, in db: SQLiteConnection) throws(StorageError) {
    try db.execute("DELETE FROM lineage WHERE descendant = ?", .blob(member.bytes))
  }

  /// Whether a credential came of this very session, or of the code or transfer that the session came of: it proves
  /// nothing about who holds the session. What somebody enrolled on a device of their own proves it there as well.
  static func isOwnMaking(
    _ credential: [UInt8], of session: SessionID, in db: SQLiteConnection
  ) throws(StorageError) -> Bool {
    let letIn = try ancestors(of: Member.session(session).bytes, in: db).filter(isCode)
    guard !letIn.isEmpty else { return false }
    let made = try ancestors(of: credential, in: db)
    return made.contains(Member.session(session).bytes) || made.contains { letIn.contains($0) }
  }

  /// Whether a code or a transfer is among what it came of.
  static func cameOfCode(_ member: Member, in db: SQLiteConnection) throws(StorageError) -> Bool {
    try ancestors(of: member.bytes, in: db).contains(where: isCode)
  }

  private static func isAddress(_ member: [UInt8]) -> Bool { member.first == UInt8(ascii: "i") }

  private static func isCode(_ member: [UInt8]) -> Bool {
    member.first == UInt8(ascii: "q") || member.first == UInt8(ascii: "t")
  }

  /// Ends what came of something, through whatever chain: sessions, the credentials that they enrolled, tickets.
  ///
  /// - Parameter keeper: the session whose owner says so just now. It and what came of it stay.
  static func endDescendants(
    of root: Member,
    of subject: SubjectID,
    except keeper: SessionID? = nil,
    because why: Session.End,
    at now: Timestamp,
    in db: SQLiteConnection,
    noting changes: inout SessionChanges
  ) throws(StorageError) {
    let kept = keeper.map { Member.session($0).bytes }
    // Addresses after the sessions: whether one may be the last to go depends on who is still signed in.
    let descendants = try db.all(selectDescendants, .blob(root.bytes)) { $0.blob(0) }
    for descendant in descendants.filter({ !isAddress($0) }) + descendants.filter(isAddress) {
      if let kept {
        if descendant == kept { continue }
        if try ancestors(of: descendant, in: db).contains(kept) { continue }
      }
      try end(descendant, of: subject, because: why, at: now, in: db, noting: &changes)
    }
    // Which credential a ticket stands for is not worth telling apart for five minutes.
    try TicketRow.voidAll(of: subject, in: db)
  }

  private static func end(
    _ member: [UInt8],
    of subject: SubjectID,
    because why: Session.End,
    at now: Timestamp,
    in db: SQLiteConnection,
    noting changes: inout SessionChanges
  ) throws(StorageError) {
    let name = Array(member.dropFirst())
    switch member.first {
    case UInt8(ascii: "s"):
      guard let id = SessionID(bytes: name), let session = try SessionRow.find(id, in: db) else { return }
      try SessionRow.end(id, because: why, at: now, in: db, noting: &changes)
      // A guest's device is its way in: what was let in leaves it.
      if session.isGuest, let key = session.device.keyThumbprint {
        try DeviceRow.releaseGuest(session.subject, from: key, in: db)
      }
    case UInt8(ascii: "u"):
      guard let (kind, key) = parts(name) else { return }
      try db.execute(
        "DELETE FROM unlocks WHERE sub = ? AND kind = ? AND key_thumbprint = ?", .id(subject), .integer(kind),
        .text(key))
      changes.notes.append(
        AuditNote(.credentialRemoved, at: now, subject: subject, detail: "came of what was ended"))
    case UInt8(ascii: "i"):
      guard let (kind, value) = parts(name) else { return }
      // The last one goes only while somebody is signed in, who can link another: a thief who took the owner's address
      // off would otherwise keep the account by theirs. With nobody there it stays, or nobody could sign in any more.
      try db.execute(
        """
        DELETE FROM identities WHERE sub = ?1 AND kind = ?2 AND value = ?3
          AND ((SELECT count(*) FROM identities WHERE sub = ?1) > 1
            OR EXISTS (SELECT 1 FROM sessions WHERE sub = ?1 AND ended_at IS NULL AND idle_expires_at > ?4
              AND absolute_expires_at > ?4))
        """,
        .id(subject), .integer(kind), .text(value), .time(now))
      changes.notes.append(AuditNote(.identityUnlinked, at: now, subject: subject, detail: "came of what was ended"))
    default: return
    }
    // A session that has ended stays on record, and with it what it came of.
    if member.first != UInt8(ascii: "s") { try db.execute("DELETE FROM lineage WHERE descendant = ?", .blob(member)) }
  }

  private static func parts(_ name: [UInt8]) -> (Int64, String)? {
    let words = String(decoding: name, as: UTF8.self).split(separator: " ", maxSplits: 1)
    guard words.count == 2, let kind = Int64(words[0]) else { return nil }
    return (kind, String(words[1]))
  }
}
