/// Swift source being written: lines at an indentation.
struct SourceWriter {
  private(set) var text = ""
  private var depth = 0

  /// The columns of our Swift sources.
  static let width = 120

  mutating func line(_ line: String = "") {
    if !line.isEmpty {
      text += String(repeating: "  ", count: depth)
      text += line
    }
    text += "\n"
  }

  mutating func comment(_ lines: [String], marker: String = "///") {
    for text in lines { line(text.isEmpty ? marker : "\(marker) \(text)") }
  }

  /// `opening`, the body one step deeper, then `closing`.
  mutating func block(_ opening: String, closing: String = "}", _ body: (inout SourceWriter) -> Void) {
    line(opening)
    indented(body)
    line(closing)
  }

  mutating func indented(_ body: (inout SourceWriter) -> Void) {
    depth += 1
    body(&self)
    depth -= 1
  }

  /// `head(item, item)tail` on one line where it fits, else an item a line.
  mutating func list(_ head: String, _ items: [String], _ tail: String) {
    let joined = "\(head)(\(items.joined(separator: ", ")))\(tail)"
    if depth * 2 + joined.count <= Self.width {
      line(joined)
      return
    }
    line("\(head)(")
    depth += 1
    for (index, item) in items.enumerated() { line(index == items.count - 1 ? item : item + ",") }
    depth -= 1
    line(")\(tail)")
  }

  /// Like `list`, then a block that `tail` opens.
  mutating func list(_ head: String, _ items: [String], _ tail: String, _ body: (inout SourceWriter) -> Void) {
    list(head, items, tail)
    indented(body)
    line("}")
  }
}
