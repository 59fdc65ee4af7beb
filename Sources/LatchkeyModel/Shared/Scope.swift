/// What a token allows: a set of scope tokens, written separated by single spaces (RFC 6749 section 3.3).
package struct Scope: Sendable, Hashable, LosslessStringConvertible {
  /// Longest text accepted, and most tokens in it.
  package static let maximumLength = 512
  package static let maximumTokens = 32

  /// In the order of first mention.
  package let tokens: [String]

  /// Allows nothing.
  package static let empty = Scope(unchecked: [])
  /// What every subject, guests too, may do: ordinary actions that no gate asks a login for.
  package static let basic = Scope(unchecked: ["basic"])
  /// What a person signed in on a device of their own may do.
  package static let account = Scope(unchecked: ["basic", "profile", "account"])
  /// What a screen that was signed in by a QR code gets when it asks for nothing in particular.
  package static let screen = Scope(unchecked: ["basic", "profile"])

  /// Nil for a character that RFC 6749 does not allow, and for too long a text. Repeated tokens count once.
  package init?(_ text: String) {
    guard text.utf8.count <= Self.maximumLength else { return nil }
    var tokens: [String] = []
    for part in text.split(separator: " ", omittingEmptySubsequences: true) {
      for byte in part.utf8 where !(byte == 0x21 || (0x23...0x5B).contains(byte) || (0x5D...0x7E).contains(byte)) {
        return nil
      }
      let token = String(part)
      if !tokens.contains(token) { tokens.append(token) }
    }
    guard tokens.count <= Self.maximumTokens else { return nil }
    self.tokens = tokens
  }

  private init(unchecked tokens: [String]) {
    self.tokens = tokens
  }

  package var isEmpty: Bool { tokens.isEmpty }

  package var description: String { tokens.joined(separator: " ") }

  package func contains(_ token: String) -> Bool { tokens.contains(token) }

  package func isSubset(of other: Scope) -> Bool {
    tokens.allSatisfy(other.tokens.contains)
  }

  package func intersection(_ other: Scope) -> Scope {
    Scope(unchecked: tokens.filter(other.tokens.contains))
  }

  /// Two scopes are the same when they allow the same, in whatever order they were written.
  package static func == (left: Scope, right: Scope) -> Bool {
    left.tokens.count == right.tokens.count && left.isSubset(of: right)
  }

  package func hash(into hasher: inout Hasher) {
    for token in tokens.sorted() { hasher.combine(token) }
  }
}
