/// A SHA-256 value: what is kept of a secret. Comparing two takes the same time wherever they differ.
package struct Digest256: Sendable, Hashable {
  package let words: (UInt64, UInt64, UInt64, UInt64)

  /// Nil unless there are exactly 32 bytes.
  package init?(_ bytes: [UInt8]) {
    guard bytes.count == 32 else { return nil }
    func word(_ index: Int) -> UInt64 {
      bytes[(index * 8)..<(index * 8 + 8)].reduce(0) { $0 << 8 | UInt64($1) }
    }
    words = (word(0), word(1), word(2), word(3))
  }

  package init(_ bytes: InlineArray<32, UInt8>) {
    func word(_ index: Int) -> UInt64 {
      var word: UInt64 = 0
      for place in (index * 8)..<(index * 8 + 8) { word = word << 8 | UInt64(bytes[place]) }
      return word
    }
    words = (word(0), word(1), word(2), word(3))
  }

  package var bytes: [UInt8] {
    var bytes: [UInt8] = []
    bytes.reserveCapacity(32)
    for word in [words.0, words.1, words.2, words.3] {
      for shift in stride(from: UInt64(56), through: 0, by: -8) {
        bytes.append(UInt8(truncatingIfNeeded: word >> shift))
      }
    }
    return bytes
  }

  package static func == (left: Digest256, right: Digest256) -> Bool {
    // No branch before the last word is in: a timing tells nothing about the position of a difference.
    let difference =
      (left.words.0 ^ right.words.0) | (left.words.1 ^ right.words.1)
      | (left.words.2 ^ right.words.2) | (left.words.3 ^ right.words.3)
    return difference == 0
  }

  package func hash(into hasher: inout Hasher) {
    hasher.combine(words.0)
  }
}
