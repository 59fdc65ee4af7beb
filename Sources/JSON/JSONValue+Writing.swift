extension JSONValue {
  /// The document without white space, members in their order, as UTF-8. Nothing in it can end a line: control
  /// characters are escaped, so one document is one line of a log.
  package func encoded() -> [UInt8] {
    var output: [UInt8] = []
    write(into: &output)
    return output
  }

  private func write(into output: inout [UInt8]) {
    switch self {
    case .null: output += "null".utf8
    case .bool(let value): output += (value ? "true" : "false").utf8
    case .integer(let value): output += String(value).utf8
    // JSON has no word for what is not finite.
    case .number(let value): output += (value.isFinite ? String(value) : "null").utf8
    case .string(let value): Self.write(value, into: &output)
    case .array(let values):
      output.append(UInt8(ascii: "["))
      for (index, value) in values.enumerated() {
        if index > 0 { output.append(UInt8(ascii: ",")) }
        value.write(into: &output)
      }
      output.append(UInt8(ascii: "]"))
    case .object(let members):
      output.append(UInt8(ascii: "{"))
      for (index, member) in members.enumerated() {
        if index > 0 { output.append(UInt8(ascii: ",")) }
        Self.write(member.name, into: &output)
        output.append(UInt8(ascii: ":"))
        member.value.write(into: &output)
      }
      output.append(UInt8(ascii: "}"))
    }
  }

  private static func write(_ text: String, into output: inout [UInt8]) {
    output.append(UInt8(ascii: "\""))
    defer { output.append(UInt8(ascii: "\"")) }
    // Of most texts nothing has to be escaped.
    guard hasEscaped(text.utf8.span) else {
      output += text.utf8
      return
    }
    for byte in text.utf8 {
      switch byte {
      case UInt8(ascii: "\""): output += #"\""#.utf8
      case UInt8(ascii: "\\"): output += #"\\"#.utf8
      case 0x0A: output += #"\n"#.utf8
      case 0x0D: output += #"\r"#.utf8
      case 0x09: output += #"\t"#.utf8
      case 0..<0x20, 0x7F:
        output += #"\u00"#.utf8
        output.append(hexadecimal[Int(byte >> 4)])
        output.append(hexadecimal[Int(byte & 15)])
      default: output.append(byte)
      }
    }
  }

  private static func hasEscaped(_ text: Span<UInt8>) -> Bool {
    for index in text.indices {
      let byte = text[index]
      if byte < 0x20 || byte == 0x7F || byte == UInt8(ascii: "\"") || byte == UInt8(ascii: "\\") { return true }
    }
    return false
  }

  private static let hexadecimal = Array("0123456789abcdef".utf8)
}
