import Testing

@testable import LatchkeyModel

@Suite struct RecordNamesTests {
  @Test("a collection's name is 1 to 64 lower-case letters, digits, '_' or '-'")
  func collections() {
    for name in ["a", "watch_history-2", String(repeating: "x", count: 64)] {
      #expect(CollectionName(name)?.description == name)
    }
    for name in ["", "A", "a b", "a.b", "é", "a\0", String(repeating: "x", count: 65)] {
      #expect(CollectionName(name) == nil, "\(name)")
    }
  }

  @Test("a key is 1 to 256 bytes without control characters")
  func keys() {
    for key in ["a", "ключ 🗝️", "a/b?c", String(repeating: "x", count: 256)] {
      #expect(RecordKey(key)?.description == key)
    }
    for key in ["", "a\0b", "a\nb", "\u{7F}", String(repeating: "é", count: 129)] {
      #expect(RecordKey(key) == nil, "\(key)")
    }
  }

  @Test("M1: a key is its bytes: what Unicode takes for the same text in another form is another key")
  func keysAreBytes() throws {
    let forms = ["\u{E9}", "e\u{301}", "\u{212B}", "\u{C5}", "A\u{30A}", "\u{AC00}", "\u{1100}\u{1161}"]
    let keys = try forms.map { try #require(RecordKey($0)) }
    let collection = try #require(CollectionName("notes"))
    #expect(Set(keys).count == forms.count)
    #expect(Set(keys.map { RecordName(collection: collection, key: $0) }).count == forms.count)
    for (left, form) in zip(keys, forms) {
      #expect(keys.filter { $0 == left }.map { Array($0.description.utf8) } == [Array(form.utf8)])
      #expect(RecordKey(left.description) == left)
    }
  }

  @Test("a page token names one position, and any other text names none")
  func pageTokens() throws {
    for (time, key) in [(0, "a"), (Int64.min, "ключ"), (Int64.max, String(repeating: "k", count: 256))] {
      let position = RecordPosition(
        updatedAt: Timestamp(millisecondsSinceEpoch: time), key: try #require(RecordKey(key)))
      #expect(RecordPosition(pageToken: position.pageToken) == position)
      #expect(RecordPosition(pageToken: position.pageToken + "A") != position)
      #expect(RecordPosition(pageToken: String(position.pageToken.dropLast())) != position)
    }
    for (collection, key) in [
      ("a", "b"), ("cart", "x/y"), ("cart", String(repeating: "é", count: 128)),
      // A mark that joins with what is before it.
      ("cart", "\u{301}a"), ("cart", "\u{20DD}"),
    ] {
      let name = RecordName(
        collection: try #require(CollectionName(collection)), key: try #require(RecordKey(key)))
      #expect(RecordName(pageToken: name.pageToken) == name)
      #expect(RecordPosition(pageToken: name.pageToken) == nil && MigrationPosition(pageToken: name.pageToken) == nil)
    }
    let id = MigrationID(from: RandomSource { [UInt8](repeating: 0xF7, count: $0) })
    for time in [0, .min, .max] as [Int64] {
      let position = MigrationPosition(createdAt: Timestamp(millisecondsSinceEpoch: time), id: id)
      #expect(MigrationPosition(pageToken: position.pageToken) == position)
      #expect(MigrationPosition(pageToken: position.pageToken + "A") == nil)
      #expect(RecordName(pageToken: position.pageToken) == nil)
    }
    for bytes in [[], [3], [3, 47], [3, 97, 47], [3, 47, 97], [3, 97, 47, 0], [3, 0xFF, 47, 97]] as [[UInt8]] {
      #expect(RecordName(pageToken: Base64URL.encode(bytes)) == nil)
    }
    let wrong: [[UInt8]] = [
      [], [1], [1, 0, 0, 0, 0, 0, 0, 0, 0], [2, 0, 0, 0, 0, 0, 0, 0, 0, 97], [1, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF],
      [1, 0, 0, 0, 0, 0, 0, 0, 0, 0],
    ]
    for bytes in wrong { #expect(RecordPosition(pageToken: Base64URL.encode(bytes)) == nil) }
    for text in ["!", "AA==", String(repeating: "A", count: 4000)] { #expect(RecordPosition(pageToken: text) == nil) }
  }
}
