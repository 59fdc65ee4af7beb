/// Where a picture of a person is: an `https` address, which apps load without asking.
package struct AvatarURL: Sendable, Equatable, LosslessStringConvertible {
  package static let maximumLength = 2048

  package let description: String

  /// Nil for anything but an `https` address of visible ASCII with a host.
  package init?(_ text: String) {
    let scheme = "https://"
    guard text.utf8.count <= Self.maximumLength, text.hasPrefix(scheme),
      text.utf8.allSatisfy({ (0x21...0x7E).contains($0) }),
      let first = text.utf8.dropFirst(scheme.utf8.count).first, first.isASCIIAlphanumeric || first == UInt8(ascii: "[")
    else { return nil }
    description = text
  }
}
