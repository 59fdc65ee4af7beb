/// What a scan gives the confirming device: the session's id, so that it is found, and 256 random bits, so that only
/// the device that scanned can decide. Storage keeps the digest of the secret part.
package struct ConfirmTicket: Sendable, CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
  package static let secretByteCount = 32

  package let session: QRSessionID
  package let secret: [UInt8]

  /// `secret` is 32 fresh random bytes.
  package init(session: QRSessionID, secret: [UInt8]) {
    precondition(secret.count == ConfirmTicket.secretByteCount, "a confirm ticket takes 32 random bytes")
    self.session = session
    self.secret = secret
  }

  /// Nil for anything but the 64 characters of a ticket.
  package init?(text: String) {
    guard text.utf8.count == 64, let bytes = Base64URL.decode(text), let session = QRSessionID(bytes: bytes.prefix(16))
    else { return nil }
    self.session = session
    secret = Array(bytes.dropFirst(16))
  }

  package var text: String { Base64URL.encode(session.bytes + secret) }
  package var description: String { "[redacted]" }
  package var debugDescription: String { description }
  package var customMirror: Mirror { Mirror(self, children: []) }
}
