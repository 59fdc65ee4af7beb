/// The content of a transfer's QR code: `<issuer>/t/1/<reference>`, and nothing else.
///
/// Reading compares scheme, host, port and path byte for byte, as ``QRPayload`` does and for the same reasons.
package struct TransferPayload: Sendable, Equatable {
  private static let path = "/t/1/"

  package let issuer: String
  package let reference: QRReference

  package init(issuer: String, reference: QRReference) {
    self.issuer = issuer
    self.reference = reference
  }

  /// Nil for anything that is no code of this installation.
  package init?(reading text: String, issuer: String) {
    let prefix = issuer + Self.path
    guard text.utf8.count <= prefix.utf8.count + 64, text.utf8.starts(with: prefix.utf8),
      let reference = QRReference(text: Substring(text.utf8.dropFirst(prefix.utf8.count)))
    else { return nil }
    self.issuer = issuer
    self.reference = reference
  }

  package var text: String { issuer + Self.path + reference.text }
}
