/// Who somebody is at an OpenID provider: issuer and subject together, which are never reassigned (OpenID Connect Core
/// section 5.7).
package struct FederatedID: Sendable, Hashable {
  /// Bytes of a subject (OpenID Connect Core section 2).
  package static let subjectBytes = 1...255

  package let issuer: String
  package let subject: String
  /// What the installation calls the provider, for people to recognise.
  package let provider: String

  /// Nil for a subject that is no visible ASCII of at most 255 characters.
  package init?(issuer: String, subject: String, provider: String) {
    guard Self.subjectBytes.contains(subject.utf8.count), subject.utf8.allSatisfy({ (0x21...0x7E).contains($0) }) else {
      return nil
    }
    self.issuer = issuer
    self.subject = subject
    self.provider = provider
  }

  /// Neither part holds a space, so no two have the same text.
  package var canonical: String { "\(issuer) \(subject)" }

  package static func == (left: FederatedID, right: FederatedID) -> Bool { left.canonical == right.canonical }

  package func hash(into hasher: inout Hasher) { hasher.combine(canonical) }
}
