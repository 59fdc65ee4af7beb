/// Writes a second way to read a flat message: in place, with nothing copied and nothing allocated.
///
/// For requests that come so often that protobuf-c's struct and the Swift value are what they cost.
struct BorrowedEmitter {
  let types: TypeTable

  /// Errors: a field that is more than a number or a piece of the message.
  func emit(_ message: Schema.Message, into out: inout SourceWriter) throws(GeneratorError) {
    var cases: [(tag: Int32, name: String, type: String, value: String)] = []
    for field in message.fields {
      guard !field.isRepeated, field.oneof == nil else { throw refusal(message, field) }
      let name = SwiftName.escaped(SwiftName.property(field.name))
      switch field.kind {
      case .string, .bytes: cases.append((field.number << 3 | 2, name, "Range<Int>", "BorrowedFields.range"))
      case .int64, .uint64, .int32, .uint32:
        guard field.isPlainVarint else { throw refusal(message, field) }
        let type = Self.number(field.kind)
        cases.append((field.number << 3, name, type, "BorrowedFields.varint"))
      case .bool: cases.append((field.number << 3, name, "Bool", "BorrowedFields.varint"))
      case .double, .float, .message, .enum: throw refusal(message, field)
      }
    }
    out.line()
    out.block("extension \(types.swiftName(message.fullName)) {") { out in
      out.comment([
        "The fields of a message in place. Of a string or bytes field it says where in the message it is; whether a string",
        "is UTF-8 is for the reader to see.",
      ])
      out.block("package struct Borrowed: Sendable {") { out in
        for field in cases {
          let zero = field.type == "Range<Int>" ? " = 0..<0" : field.type == "Bool" ? " = false" : ": \(field.type) = 0"
          out.line("package var \(field.name)\(zero)")
        }
        out.line()
        out.comment(["Nil for what is no message, and for one with fields that are not known here."])
        out.block("package init?(_ message: Span<UInt8>) {") { out in
          out.line("var index = 0")
          out.block("while index < message.count {") { out in
            out.line("switch BorrowedFields.varint(message, &index) {")
            for field in cases {
              out.line("case \(field.tag):")
              out.indented { out in
                out.line("guard let value = \(field.value)(message, &index) else { return nil }")
                switch field.type {
                case "Range<Int>": out.line("\(field.name) = value")
                case "Bool": out.line("\(field.name) = value != 0")
                default: out.line("\(field.name) = \(field.type)(truncatingIfNeeded: value)")
                }
              }
            }
            out.line("default: return nil")
            out.line("}")
          }
        }
      }
    }
  }

  private static func number(_ kind: Schema.Kind) -> String {
    switch kind {
    case .int64: "Int64"
    case .uint64: "UInt64"
    case .int32: "Int32"
    default: "UInt32"
    }
  }

  private func refusal(_ message: Schema.Message, _ field: Schema.Field) -> GeneratorError {
    GeneratorError("\(message.fullName).\(field.name): a message with such a field is not read in place")
  }
}
