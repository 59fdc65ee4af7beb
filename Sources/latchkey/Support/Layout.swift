/// How text for people fits a terminal: prose is broken between words, and what is wider than the terminal is set in
/// another form. Commands to paste and lines of JSON are left in one piece, whatever that does to the look.
enum Layout {
  /// - Parameter columns: nil where there is no terminal: nothing is broken then.
  static func lines(_ text: String, columns: Int?) -> String {
    guard let columns else { return text }
    return text.split(separator: "\n", omittingEmptySubsequences: false).map { line in
      line.hasPrefix("{") || width(line) <= columns ? String(line) : broken(line, columns)
    }.joined(separator: "\n")
  }

  /// Columns under headings: text to the left, numbers to the right. In a terminal that is too narrow for that, a block
  /// of lines for each row.
  static func table(_ headings: [String], _ rows: [[String]], columns: Int?) -> String {
    let lines = ([headings] + rows).map { row in row.map { TerminalText.line($0) } }
    let widths = headings.indices.map { column in lines.map { $0[column].count }.max() ?? 0 }
    if let columns, widths.reduce(0, +) + 2 * (widths.count - 1) > columns {
      return rows.map { row in pairs(named(headings, row), columns: columns) }.joined(separator: "\n\n")
    }
    let areNumbers = headings.indices.map { column in
      !rows.isEmpty && rows.allSatisfy { Int64($0[column]) != nil }
    }
    return lines.enumerated().map { number, row in
      var line = row.indices.map { column in
        let padding = String(repeating: " ", count: widths[column] - row[column].count)
        return areNumbers[column] ? padding + row[column] : row[column] + padding
      }.joined(separator: "  ")
      while line.hasSuffix(" ") { line.removeLast() }
      return number == 0 ? Style.strong(line) : line
    }.joined(separator: "\n")
  }

  /// A row's values with their names. What has none, such as a remark, goes with the value before it.
  private static func named(_ headings: [String], _ row: [String]) -> [(String, String)] {
    var pairs: [(String, String)] = []
    for (heading, value) in zip(headings, row) {
      if heading.isEmpty, let last = pairs.popLast() {
        pairs.append((last.0, [last.1, value].filter { !$0.isEmpty }.joined(separator: ", ")))
      } else {
        pairs.append((heading, value))
      }
    }
    return pairs
  }

  /// Values behind their names, one a line; what has no value is left out.
  static func pairs(_ rows: [(String, String)], indent: Int = 0, columns: Int?) -> String {
    let rows = rows.filter { !$0.1.isEmpty }
    let names = rows.map(\.0.count).max() ?? 0
    let margin = String(repeating: " ", count: indent)
    let hang = String(repeating: " ", count: indent + names + 2)
    return rows.map { name, value in
      let padding = String(repeating: " ", count: names + 2 - name.count)
      let value = TerminalText.line(value)
      let lines = columns.map { wrapped(value, $0 - hang.count) } ?? [value]
      return margin + Style.strong(name) + padding + lines.joined(separator: "\n\(hang)")
    }.joined(separator: "\n")
  }

  /// What is cut off where a line would wrap.
  static func cut(_ text: String, columns: Int) -> String {
    width(text) <= columns ? text : String(text.prefix(max(0, columns - 1))) + "…"
  }

  private static func width(_ line: some StringProtocol) -> Int { line.count { !Style.isMark($0) } }

  private static func broken(_ line: Substring, _ columns: Int) -> String {
    let margin = String(line.prefix { $0 == " " })
    return wrapped(String(line.dropFirst(margin.count)), columns - margin.count)
      .map { margin + $0 }.joined(separator: "\n")
  }

  /// Lines of at most so many columns, but for words that are longer. What is marked is one word.
  private static func wrapped(_ text: String, _ columns: Int) -> [String] {
    var lines: [String] = []
    var line = ""
    for word in words(text) {
      if !line.isEmpty, width(line) + 1 + width(word) > columns {
        lines.append(line)
        line = word
      } else {
        line += line.isEmpty ? word : " \(word)"
      }
    }
    return lines + [line]
  }

  private static func words(_ text: String) -> [String] {
    var words: [String] = [""]
    var isMarked = false
    for character in text {
      isMarked = Style.begins(character) ?? isMarked
      if character == " ", !isMarked { words.append("") } else { words[words.count - 1].append(character) }
    }
    return words.filter { !$0.isEmpty }
  }
}
