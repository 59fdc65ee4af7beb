import Testing

@testable import HTTP2

/// What a request's fields may hold, byte by byte.
@Suite struct RequestRulesTests {
  private func holds(_ value: [UInt8]) -> Bool {
    var rules = RequestRules(isTrailers: true)
    unsafe [UInt8(ascii: "x")].withUnsafeBytes { name in
      unsafe value.withUnsafeBytes { unsafe rules.check(name, $0) }
    }
    return rules.isWellFormed(GatheredFields())
  }

  @Test("A value holds no control character but a tab, and no blank at its ends, wherever and however long it is")
  func values() {
    for count in [1, 2, 7, 8, 15, 16, 17, 23, 24, 31, 40] {
      for place in 0..<count {
        for byte in UInt8.min...UInt8.max {
          var value = Array(repeating: UInt8(ascii: "~"), count: count)
          value[place] = byte
          let isBlank = byte == 0x20 || byte == 0x09
          let isControl = byte < 0x20 && !isBlank || byte == 0x7f
          let isAtEnd = place == 0 || place == count - 1
          let isRight = holds(value) == !(isControl || isBlank && isAtEnd)
          if !isRight { Issue.record("byte \(byte) at \(place) of \(count)") }
        }
      }
    }
    #expect(holds([]))
  }
}
