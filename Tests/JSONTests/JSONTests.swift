import Testing

@testable import JSON

@Suite("JSON")
struct JSONTests {
  private func parse(_ text: String) throws -> JSONValue {
    try JSONValue(parsing: Array(text.utf8))
  }

  @Test("documents parse to their values")
  func values() throws {
    #expect(try parse(" null ") == .null)
    #expect(try parse("[true,false]") == [true, false])
    #expect(try parse("[0,-0,12,-9223372036854775808]") == [0, 0, 12, .integer(.min)])
    #expect(try parse("[1.5,1e2,9223372036854775808]") == .array([.number(1.5), .number(100), .number(0x1p63)]))
    #expect(try parse(#"{"a":{"b":[1,{}]},"c":[]}"#) == ["a": ["b": [1, [:]]], "c": []])
    #expect(try parse(#""\"\\\/\b\f\n\r\t\u0041\u00e9\ud83d\ude00""#) == "\"\\/\u{8}\u{c}\n\r\tAé😀")
  }

  @Test(
    "what is not one strict document is refused",
    arguments: [
      "", " ", "{", "[", "\"", "[1,]", "{\"a\":1,}", "{a:1}", "{\"a\" 1}", "{\"a\":1 \"b\":2}", "01", "-", "1.", ".5",
      "1e", "+1", "NaN", "Infinity", "1e999", "tru", "nul", "[1] 2", "\"\\x\"", "\"\\u12\"", "\"\\ud800\"",
      "\"\\ud800\\u0041\"", "\"\\udc00\"", "\"a\nb\"", "'a'", "{\"a\":1,\"a\":2}", "[1 2]", "\u{FEFF}1", "/**/1",
    ]
  )
  func malformed(_ text: String) {
    #expect(throws: JSONError.self) { try JSONValue(parsing: Array(text.utf8)) }
  }

  @Test("bytes that are not UTF-8 are refused")
  func encoding() {
    for bytes: [UInt8] in [[0xFF], [0xC0, 0xAF], [0xED, 0xA0, 0x80], [0xE2, 0x82], [0xF5, 0x80, 0x80, 0x80]] {
      #expect(throws: JSONError.self) { try JSONValue(parsing: [0x22] + bytes + [0x22]) }
    }
  }

  @Test("depth and length are bounded")
  func bounds() throws {
    let deepest = String(repeating: "[", count: Limits.depth) + String(repeating: "]", count: Limits.depth)
    _ = try parse(deepest)
    #expect(throws: JSONError.self) { try parse("[\(deepest)]") }
    #expect(throws: JSONError.self) { try parse(String(repeating: "[", count: 200_000)) }
    #expect(throws: JSONError.self) { try parse(String(repeating: " ", count: Limits.bytes) + "1") }
  }

  @Test("R42: what is written is one line, and reads back as it was")
  func writing() throws {
    let value: JSONValue = [
      "text": "line\nbreak \r\t\u{0}\u{1F}\u{7F} \"quoted\" \\ é 😀", "n": -5, "b": true, "none": .null,
      "list": [1, .number(2.5), "x"], "of": [:], "": [],
    ]
    let bytes = value.encoded()
    #expect(bytes.allSatisfy { $0 >= 0x20 && $0 != 0x7F })
    #expect(try JSONValue(parsing: bytes) == value)
  }
}
