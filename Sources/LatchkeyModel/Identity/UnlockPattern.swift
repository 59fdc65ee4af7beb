/// A pattern or PIN that unlocks an account on one device: 4 to 64 visible ASCII characters, such as the dots' numbers
/// in their order. Worth something only together with that device's key.
package struct UnlockPattern: Sendable {
  package static let length = 4...64

  package let secret: RedactedSecret

  package init?(_ text: String) {
    guard Self.length.contains(text.utf8.count), text.utf8.allSatisfy({ (0x21...0x7E).contains($0) }) else {
      return nil
    }
    secret = RedactedSecret(text)
  }
}
