/// The version of an app: one to four numbers with dots between them. Missing numbers count as 0, and what follows a
/// `-` or `+` does not count, so 2.1, 2.1.0 and 2.1.0-beta are equal.
package struct AppVersion: Sendable, Comparable, LosslessStringConvertible {
  /// Characters that are looked at.
  package static let maximumLength = 64
  private static let maximumNumbers = 4

  package let description: String
  private let numbers: [UInt32]

  package init?(_ text: String) {
    guard text.utf8.count <= Self.maximumLength, text.utf8.allSatisfy({ (0x21...0x7E).contains($0) }) else {
      return nil
    }
    let end = text.utf8.firstIndex { $0 == UInt8(ascii: "-") || $0 == UInt8(ascii: "+") } ?? text.endIndex
    let parts = text[..<end].split(separator: ".", omittingEmptySubsequences: false)
    guard (1...Self.maximumNumbers).contains(parts.count) else { return nil }
    var numbers = [UInt32](repeating: 0, count: Self.maximumNumbers)
    for (index, part) in parts.enumerated() {
      guard part.utf8.allSatisfy({ (0x30...0x39).contains($0) }), let number = UInt32(part) else { return nil }
      numbers[index] = number
    }
    self.numbers = numbers
    description = text
  }

  package static func == (left: AppVersion, right: AppVersion) -> Bool { left.numbers == right.numbers }

  package static func < (left: AppVersion, right: AppVersion) -> Bool {
    left.numbers.lexicographicallyPrecedes(right.numbers)
  }
}
