/// One thing that a person is asked to agree to, such as a payment: as the client that asks registered it, and as the
/// confirm screen shows it, word for word.
package struct QRAction: Sendable, Equatable {
  /// What a phone shows without scrolling.
  package static let maximumTextCharacters = 120
  package static let maximumReferenceBytes = 64

  package let text: DisplayText
  package let amount: QRAmount?
  /// The client's own name for it, such as an order number; visible ASCII, or empty.
  package let reference: String

  /// Nil when a part is out of its bounds.
  package init?(text: String, amount: QRAmount?, reference: String) {
    guard let shown = Self.shown(text),
      reference.utf8.count <= Self.maximumReferenceBytes,
      reference.utf8.allSatisfy({ (0x21...0x7E).contains($0) })
    else { return nil }
    self.text = shown
    self.amount = amount
    self.reference = reference
  }

  /// Nil for what is no line of text, or has a gap in it that could push what follows out of sight.
  package static func shown(_ text: String) -> DisplayText? {
    let hasGap = zip(text, text.dropFirst()).contains { $0.isWhitespace && $1.isWhitespace }
    return hasGap ? nil : DisplayText(plain: text, maximumCharacters: Self.maximumTextCharacters)
  }

  /// What the action's digest is the SHA-256 of: all that was shown, and for whom. The parts are separated by a zero
  /// byte, which none of them can hold, so no two actions have the same bytes.
  package func message(client: ClientID) -> [UInt8] {
    let parts = [
      "latchkey-action-v1", client.description, text.description, amount?.decimal ?? "", amount?.currency ?? "",
      reference,
    ]
    return Array(parts.map { Array($0.utf8) }.joined(separator: [0]))
  }
}
