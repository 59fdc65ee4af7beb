/// What a scan gives the confirming device: the session's id, so that it is found, and 256 random bits, so that only
/// the device that scanned can decide. Storage keeps the digest of the secret part.
package struct ConfirmTicket: Sendable, CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
  package static let secretByteCount = 32

  package let session: QRSessionID
  package let secret: [UInt8]
  /// Where the session is, as the text says: the ids of an earlier release do not begin with it.
  package let cell: Cell

  /// `secret` is 32 fresh random bytes, `cell` where the session is.
  package init(session: QRSessionID, secret: [UInt8], in cell: Cell) {
    precondition(secret.count == ConfirmTicket.secretByteCount, "a confirm ticket takes 32 random bytes")
    self.session = session
    self.secret = secret
    self.cell = cell
  }

  /// Nil for anything but the 64 characters of a ticket, behind the prefix of its cell.
  package init?(text: String) {
    let (cell, rest) = Cell.read(text)
    guard rest.utf8.count == 64, let bytes = Base64URL.decode(rest), let session = QRSessionID(bytes: bytes.prefix(16)),
      cell == .first || session.cell == cell
    else { return nil }
    self.session = session
    self.cell = cell
    secret = Array(bytes.dropFirst(16))
  }

  package var text: String { cell.prefix + Base64URL.encode(session.bytes + secret) }
  package var description: String { "[redacted]" }
  package var debugDescription: String { description }
  package var customMirror: Mirror { Mirror(self, children: []) }
}
