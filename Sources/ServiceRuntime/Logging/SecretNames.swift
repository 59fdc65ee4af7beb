/// Names of fields whose values must not be logged (R2): the last guard, for a caller who should have known better.
enum SecretNames {
  private static let words: [[UInt8]] = [
    "token", "secret", "password", "authorization", "credential", "proof", "verifier", "private", "cookie",
    "device_code",
    "user_code", "otp", "ticket",
  ].map { Array($0.utf8) }

  /// A bit for each letter that one of the words begins with.
  private static let beginnings: UInt32 = words.reduce(0) { $0 | bit(of: $1[0]) }

  /// Whether the name, whatever its case, has one of the words in it. Asked of every field of every line, so without
  /// making a string of it.
  static func contains(_ name: String) -> Bool {
    let bytes = name.utf8Span.span
    for start in bytes.indices {
      guard bytes[start] < 0x80 else { return containsByCharacters(name) }
      guard beginnings & bit(of: bytes[start]) != 0 else { continue }
      for word in words where bytes.count - start >= word.count && isWord(word, bytes, at: start) { return true }
    }
    return false
  }

  /// The same for names of any letters, some of which have an English one as their lower case.
  private static func containsByCharacters(_ name: String) -> Bool {
    let name = name.lowercased()
    return words.contains { name.contains(String(decoding: $0, as: UTF8.self)) }
  }

  private static func isWord(_ word: [UInt8], _ bytes: Span<UInt8>, at start: Int) -> Bool {
    for index in word.indices where lowercased(bytes[start + index]) != word[index] { return false }
    return true
  }

  private static func lowercased(_ byte: UInt8) -> UInt8 {
    (UInt8(ascii: "A")...UInt8(ascii: "Z")).contains(byte) ? byte | 0x20 : byte
  }

  private static func bit(of byte: UInt8) -> UInt32 { 1 << (byte & 0x1f) }
}
