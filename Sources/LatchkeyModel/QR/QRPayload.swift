/// The content of a Latchkey QR code: `<base>/q/1/<reference>`, and nothing else: no token, no personal data, no purpose
/// to be trusted (S22).
///
/// Reading compares scheme, host, port and path byte for byte. Nothing is normalised, so nothing can be smuggled past
/// a comparison: `https://good.example.evil.test/…`, `https://good.example@evil.test/…` and `HTTPS://GOOD.example/…`
/// are all somebody else's.
package struct QRPayload: Sendable, Equatable {
  /// The version of the payload's form, the path's second part.
  package static let version = "1"

  package let base: QRVerificationBase
  package let reference: QRReference

  package enum Refusal: Error, Equatable, Sendable {
    /// Not a Latchkey code of this installation.
    case notOurs
    /// Ours, but written by a newer version than this one reads.
    case unsupportedVersion
    /// Ours, but damaged.
    case malformed
  }

  package init(base: QRVerificationBase, reference: QRReference) {
    self.base = base
    self.reference = reference
  }

  package init(reading text: String, base: QRVerificationBase) throws(Refusal) {
    let prefix = base.text + "/q/"
    // Compared as bytes: Swift's `hasPrefix` would hold canonically equivalent Unicode texts for equal.
    guard text.utf8.count <= prefix.utf8.count + 64, text.utf8.starts(with: prefix.utf8) else { throw .notOurs }
    let rest = text.utf8.dropFirst(prefix.utf8.count)
    guard let slash = rest.firstIndex(of: UInt8(ascii: "/")) else { throw .malformed }
    let version = rest[..<slash]
    guard version.elementsEqual(QRPayload.version.utf8) else {
      let isNumber = !version.isEmpty && version.allSatisfy { (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }
      throw isNumber ? .unsupportedVersion : .malformed
    }
    guard let reference = QRReference(text: Substring(rest[rest.index(after: slash)...])) else { throw .malformed }
    self.base = base
    self.reference = reference
  }

  package var text: String { "\(base.text)/q/\(QRPayload.version)/\(reference.text)" }
}
