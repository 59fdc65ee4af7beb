/// What the confirming device signed when the person agreed: proof of a local unlock, and of what it was for.
package struct QRConfirmProof: Sendable, Equatable {
  package static let byteCount = 160

  /// The device's public key: x and y, 32 bytes each.
  package let key: [UInt8]
  /// SHA-256 of the confirm ticket's text.
  package let ticket: Digest256
  /// ECDSA P-256 with SHA-256: r and s, 32 bytes each.
  package let signature: [UInt8]

  /// Nil unless the key and the signature have 64 bytes.
  package init?(key: [UInt8], ticket: Digest256, signature: [UInt8]) {
    guard key.count == 64, signature.count == 64 else { return nil }
    self.key = key
    self.ticket = ticket
    self.signature = signature
  }

  /// As ``bytes`` wrote it; nil for anything else.
  package init?(bytes: [UInt8]) {
    guard bytes.count == Self.byteCount, let ticket = Digest256(Array(bytes[64..<96])) else { return nil }
    self.init(key: Array(bytes[..<64]), ticket: ticket, signature: Array(bytes[96...]))
  }

  package var bytes: [UInt8] { key + ticket.bytes + signature }

  /// What is signed: the ticket, which is fresh and used once, and the action's digest where there is an action. The
  /// first part says what for, so that the signature serves nothing else.
  package static func message(ticket: Digest256, action: Digest256?) -> [UInt8] {
    let parts = [
      "latchkey-qr-confirm-v1", Base64URL.encode(ticket.bytes), action.map { Base64URL.encode($0.bytes) } ?? "",
    ]
    return Array(parts.map { Array($0.utf8) }.joined(separator: [0]))
  }
}
