/// Swift source being written: lines at an indentation, broken where they would be too wide.
struct SourceWriter {
  private(set) var text = ""
  private var depth = 0

  /// The columns of our Swift sources.
  private static let width = 120

  /// Stand at the two ends of what may go on a line of its own, and leave no trace elsewhere.
  private static let softOpen: Character = "\u{1}"
  private static let softClose: Character = "\u{2}"
  /// Stands behind a comma between such parts.
  private static let softBreak: Character = "\u{3}"

  /// `head(arguments)` that a line may break inside its parentheses.
  static func call(_ head: String, _ arguments: String...) -> String {
    "\(head)(\(softOpen)\(arguments.joined(separator: ",\(softBreak) "))\(softClose))"
  }

  /// ` { body }` that a line may break inside its braces.
  static func closure(_ body: String) -> String {
    " {\(softOpen) \(body) \(softClose)}"
  }

  mutating func line(_ line: String = "") {
    if line.isEmpty {
      text += "\n"
      return
    }
    let plain = Self.plain(line)
    if plain.count == line.count || depth * 2 + plain.count <= Self.width {
      write(plain)
      return
    }
    if !line.contains(Self.softOpen) {
      for part in line.split(separator: Self.softBreak) { write(Self.trimmed(part)) }
      return
    }
    // Outer pairs break; what is inside them breaks only where it is still too wide.
    var rest = line[...]
    while let open = rest.firstIndex(of: Self.softOpen), let close = Self.matching(open, in: rest) {
      write(String(rest[..<open]))
      indented { $0.line(Self.trimmed(rest[rest.index(after: open)..<close])) }
      rest = rest[rest.index(after: close)...]
    }
    self.line(String(rest))
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
    let joined = Self.plain("\(head)(\(items.joined(separator: ", ")))\(tail)")
    if depth * 2 + joined.count <= Self.width {
      write(joined)
      return
    }
    write("\(head)(")
    indented { out in
      for (index, item) in items.enumerated() { out.line(index == items.count - 1 ? item : item + ",") }
    }
    write(")\(tail)")
  }

  /// Like `list`, then a block that `tail` opens.
  mutating func list(_ head: String, _ items: [String], _ tail: String, _ body: (inout SourceWriter) -> Void) {
    list(head, items, tail)
    indented(body)
    line("}")
  }

  private mutating func write(_ line: String) {
    text += String(repeating: "  ", count: depth)
    text += line
    text += "\n"
  }

  private static func plain(_ line: String) -> String {
    line.filter { $0 != softOpen && $0 != softClose && $0 != softBreak }
  }

  private static func matching(_ open: Substring.Index, in text: Substring) -> Substring.Index? {
    var nesting = 0
    for index in text[open...].indices {
      if text[index] == softOpen { nesting += 1 }
      if text[index] == softClose { nesting -= 1 }
      if nesting == 0 { return index }
    }
    return nil
  }

  private static func trimmed(_ text: Substring) -> String {
    var text = text
    while text.first == " " { text.removeFirst() }
    while text.last == " " { text.removeLast() }
    return String(text)
  }
}
