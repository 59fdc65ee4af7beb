/// A strict parser of JSON (RFC 8259): bounded in size and depth, duplicate names refused, text checked to be UTF-8.
///
/// Two readers of one document must not see different things, so what the RFC leaves open is an error here.
struct JSONParser {
  private let bytes: [UInt8]
  private var index = 0
  private var depth = 0

  static func parse(_ bytes: [UInt8]) throws(JSONError) -> JSONValue {
    guard bytes.count <= Limits.bytes else { throw JSONError(reason: "the document is too long", offset: 0) }
    var parser = JSONParser(bytes: bytes)
    parser.skipWhitespace()
    let value = try parser.value()
    parser.skipWhitespace()
    guard parser.index == bytes.count else { throw parser.error("text after the end of the document") }
    return value
  }

  private init(bytes: [UInt8]) {
    self.bytes = bytes
  }

  private func error(_ reason: String) -> JSONError {
    JSONError(reason: reason, offset: index)
  }

  private var current: UInt8? { index < bytes.count ? bytes[index] : nil }

  private mutating func skipWhitespace() {
    while let byte = current, byte == 0x20 || byte == 0x0A || byte == 0x0D || byte == 0x09 { index += 1 }
  }

  private mutating func expect(_ byte: UInt8, _ reason: String) throws(JSONError) {
    guard current == byte else { throw error(reason) }
    index += 1
  }

  private mutating func value() throws(JSONError) -> JSONValue {
    switch current {
    case UInt8(ascii: "{"): return try object()
    case UInt8(ascii: "["): return try array()
    case UInt8(ascii: "\""): return .string(try string())
    case UInt8(ascii: "t"): return try literal("true", .bool(true))
    case UInt8(ascii: "f"): return try literal("false", .bool(false))
    case UInt8(ascii: "n"): return try literal("null", .null)
    case let byte? where byte == UInt8(ascii: "-") || isDigit(byte): return try number()
    case nil: throw error("the document ends early")
    default: throw error("unexpected character")
    }
  }

  private mutating func literal(_ text: String, _ value: JSONValue) throws(JSONError) -> JSONValue {
    guard bytes[index...].starts(with: text.utf8) else { throw error("unexpected character") }
    index += text.utf8.count
    return value
  }

  private mutating func nest() throws(JSONError) {
    depth += 1
    guard depth <= Limits.depth else { throw error("nested too deeply") }
    index += 1
    skipWhitespace()
  }

  private mutating func object() throws(JSONError) -> JSONValue {
    try nest()
    var members: [JSONValue.Member] = []
    var names: Set<String> = []
    if current == UInt8(ascii: "}") {
      index += 1
      depth -= 1
      return .object([])
    }
    while true {
      guard current == UInt8(ascii: "\"") else { throw error("a member must begin with its name") }
      let name = try string()
      guard names.insert(name).inserted else { throw error("a name occurs twice") }
      skipWhitespace()
      try expect(UInt8(ascii: ":"), "a name must be followed by a colon")
      skipWhitespace()
      members.append(JSONValue.Member(name, try value()))
      skipWhitespace()
      if current == UInt8(ascii: ",") {
        index += 1
        skipWhitespace()
        continue
      }
      try expect(UInt8(ascii: "}"), "an object must end with a brace")
      depth -= 1
      return .object(members)
    }
  }

  private mutating func array() throws(JSONError) -> JSONValue {
    try nest()
    var values: [JSONValue] = []
    if current == UInt8(ascii: "]") {
      index += 1
      depth -= 1
      return .array([])
    }
    while true {
      values.append(try value())
      skipWhitespace()
      if current == UInt8(ascii: ",") {
        index += 1
        skipWhitespace()
        continue
      }
      try expect(UInt8(ascii: "]"), "an array must end with a bracket")
      depth -= 1
      return .array(values)
    }
  }

  private func isDigit(_ byte: UInt8) -> Bool {
    (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte)
  }

  private mutating func digits() throws(JSONError) {
    let start = index
    while let byte = current, isDigit(byte) { index += 1 }
    guard index > start else { throw error("a number needs a digit") }
  }

  private mutating func number() throws(JSONError) -> JSONValue {
    let start = index
    if current == UInt8(ascii: "-") { index += 1 }
    if current == UInt8(ascii: "0") {
      index += 1
    } else {
      try digits()
    }
    var isInteger = true
    if current == UInt8(ascii: ".") {
      isInteger = false
      index += 1
      try digits()
    }
    if current == UInt8(ascii: "e") || current == UInt8(ascii: "E") {
      isInteger = false
      index += 1
      if current == UInt8(ascii: "+") || current == UInt8(ascii: "-") { index += 1 }
      try digits()
    }
    let text = String(decoding: bytes[start..<index], as: UTF8.self)
    if isInteger, let value = Int64(text) { return .integer(value) }
    guard let value = Double(text), value.isFinite else { throw error("the number does not fit") }
    return .number(value)
  }

  private mutating func string() throws(JSONError) -> String {
    index += 1
    var text: [UInt8] = []
    while true {
      guard let byte = current else { throw error("a string does not end") }
      index += 1
      switch byte {
      case UInt8(ascii: "\""):
        guard let string = String(validating: text, as: UTF8.self) else { throw error("a string is not UTF-8") }
        return string
      case UInt8(ascii: "\\"): try escape(into: &text)
      case 0..<0x20: throw error("a control character in a string")
      default: text.append(byte)
      }
    }
  }

  private mutating func escape(into text: inout [UInt8]) throws(JSONError) {
    guard let byte = current else { throw error("a string does not end") }
    index += 1
    switch byte {
    case UInt8(ascii: "\""), UInt8(ascii: "\\"), UInt8(ascii: "/"): text.append(byte)
    case UInt8(ascii: "b"): text.append(0x08)
    case UInt8(ascii: "f"): text.append(0x0C)
    case UInt8(ascii: "n"): text.append(0x0A)
    case UInt8(ascii: "r"): text.append(0x0D)
    case UInt8(ascii: "t"): text.append(0x09)
    case UInt8(ascii: "u"):
      var code = UInt32(try codeUnit())
      if (0xD800..<0xDC00).contains(code) {
        guard current == UInt8(ascii: "\\") else { throw error("half of a surrogate pair") }
        index += 1
        try expect(UInt8(ascii: "u"), "half of a surrogate pair")
        let low = UInt32(try codeUnit())
        guard (0xDC00..<0xE000).contains(low) else { throw error("half of a surrogate pair") }
        code = 0x10000 + (code - 0xD800) << 10 + (low - 0xDC00)
      }
      guard let scalar = Unicode.Scalar(code) else { throw error("half of a surrogate pair") }
      text += String(Character(scalar)).utf8
    default: throw error("an unknown escape")
    }
  }

  private mutating func codeUnit() throws(JSONError) -> UInt16 {
    var value: UInt16 = 0
    for _ in 0..<4 {
      guard let byte = current, let digit = Character(Unicode.Scalar(byte)).hexDigitValue else {
        throw error("an escape needs four hexadecimal digits")
      }
      value = value << 4 | UInt16(digit)
      index += 1
    }
    return value
  }
}

extension JSONValue {
  /// Parses one whole document. Errors: ``JSONError``.
  package init(parsing bytes: [UInt8]) throws(JSONError) {
    self = try JSONParser.parse(bytes)
  }
}
