/// Writes an enum that keeps numbers it does not know, as proto3 asks.
struct EnumEmitter {
  func emit(_ value: Schema.Enum, into out: inout SourceWriter) {
    let type = SwiftName.escaped(value.name)
    var cases: [(name: String, number: Int32)] = []
    var aliases: [(name: String, of: String)] = []
    out.comment(value.comment)
    out.block("package enum \(type): Sendable, Hashable, RawRepresentable {") { out in
      for item in value.values {
        let name = SwiftName.escaped(SwiftName.enumCase(item.name, of: value.name))
        if let first = cases.first(where: { $0.number == item.number }) {
          aliases.append((name, first.name))
          continue
        }
        cases.append((name, item.number))
        out.comment(item.comment)
        out.line("case \(name)")
      }
      out.comment(["A number that this build has no name for."])
      out.line("case unrecognized(Int32)")
      for alias in aliases {
        out.line()
        out.line("package static var \(alias.name): \(type) { .\(alias.of) }")
      }
      out.line()
      out.block("package init(rawValue: Int32) {") { out in
        out.line("switch rawValue {")
        for item in cases { out.line("case \(item.number): self = .\(item.name)") }
        out.line("default: self = .unrecognized(rawValue)")
        out.line("}")
      }
      out.line()
      out.block("package var rawValue: Int32 {") { out in
        out.line("switch self {")
        for item in cases { out.line("case .\(item.name): \(item.number)") }
        out.line("case .unrecognized(let number): number")
        out.line("}")
      }
    }
  }
}
