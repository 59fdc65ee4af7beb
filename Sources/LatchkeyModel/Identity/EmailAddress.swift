/// An e-mail address of the plain form `local@domain`: dot-atoms of ASCII on both sides, no quoted parts or comments
/// (RFC 5321 section 4.1.2), a domain of at least two labels.
package struct EmailAddress: Sendable, Hashable, LosslessStringConvertible {
  private let local: String
  private let domain: String

  package init?(_ text: String) {
    guard text.utf8.count <= 254 else { return nil }
    let parts = text.split(separator: "@", omittingEmptySubsequences: false)
    guard parts.count == 2 else { return nil }
    guard (1...64).contains(parts[0].utf8.count), Self.isDotAtom(parts[0]) else { return nil }
    guard Self.isDomain(parts[1]) else { return nil }
    local = String(parts[0])
    domain = String(parts[1]).lowercasedASCII
  }

  package var description: String { "\(local)@\(domain)" }

  /// Lower case throughout: no provider tells `Ada@` from `ada@`, and people type either.
  package var canonical: String { "\(local.lowercasedASCII)@\(domain)" }

  /// Such as `a***@e***.com`.
  package var mask: String {
    let labels = domain.split(separator: ".")
    return "\(local.prefix(1))***@\(domain.prefix(1))***.\(labels[labels.count - 1])"
  }

  private static func isDotAtom(_ text: Substring) -> Bool {
    for atom in text.split(separator: ".", omittingEmptySubsequences: false) {
      guard !atom.isEmpty else { return false }
      for byte in atom.utf8 where !byte.isASCIIAlphanumeric && !"!#$%&'*+-/=?^_`{|}~".utf8.contains(byte) {
        return false
      }
    }
    return true
  }

  private static func isDomain(_ text: Substring) -> Bool {
    guard text.utf8.count <= 253 else { return false }
    let labels = text.split(separator: ".", omittingEmptySubsequences: false)
    guard labels.count >= 2 else { return false }
    for label in labels {
      guard (1...63).contains(label.utf8.count) else { return false }
      guard label.utf8.allSatisfy({ $0.isASCIIAlphanumeric || $0 == UInt8(ascii: "-") }) else { return false }
      guard label.utf8.first != UInt8(ascii: "-"), label.utf8.last != UInt8(ascii: "-") else { return false }
    }
    // A last label of digits only is an IP address, not a domain.
    return labels[labels.count - 1].utf8.contains { $0.isASCIILetter }
  }
}
