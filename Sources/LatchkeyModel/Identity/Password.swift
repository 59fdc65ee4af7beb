/// A password as it was typed: 8 to 128 characters, any of them (NIST SP 800-63B-4 section 3.1.1.2 asks for length,
/// not for kinds of character).
package struct Password: Sendable {
  package static let minimumCharacters = 8
  package static let maximumCharacters = 128
  /// Bounds what is hashed, whatever the characters are made of.
  package static let maximumBytes = 1024

  package let secret: RedactedSecret

  /// For signing in: anything that could be a password; rules for new ones may have been others when it was made.
  package init?(presented text: String) {
    guard !text.isEmpty, text.utf8.count <= Self.maximumBytes else { return nil }
    secret = RedactedSecret(text)
  }

  /// For a new password.
  package init?(new text: String) {
    guard text.utf8.count <= Self.maximumBytes else { return nil }
    guard (Self.minimumCharacters...Self.maximumCharacters).contains(text.count) else { return nil }
    secret = RedactedSecret(text)
  }
}
