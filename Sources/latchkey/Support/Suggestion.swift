import ArgumentParser

/// The command that was probably meant, where a word is none.
enum Suggestion {
  /// Such as `did you mean "latchkey record put"?`; nil when the words name commands, or nothing is near.
  static func text(for words: [String], in root: any ParsableCommand.Type) -> String? {
    var (command, path) = (root, [name(of: root)])
    for word in words {
      let children = command.configuration.subcommands
      guard !word.hasPrefix("-"), word != "help", !children.isEmpty else { return nil }
      if let child = children.first(where: { name(of: $0) == word }) {
        (command, path) = (child, path + [word])
        continue
      }
      let near = children.map { (name(of: $0), distance(name(of: $0), word)) }.min { $0.1 < $1.1 }
      guard let near, near.1 <= max(1, word.count / 3) else { return nil }
      return "did you mean \"\((path + [near.0]).joined(separator: " "))\"?"
    }
    return nil
  }

  private static func name(of command: any ParsableCommand.Type) -> String {
    command.configuration.commandName ?? String(describing: command).lowercased()
  }

  /// Insertions, deletions, replacements and swaps of neighbours that make one of the other.
  static func distance(_ one: String, _ other: String) -> Int {
    let (one, other) = (Array(one), Array(other))
    var rows = [Array(0...other.count)]
    for row in 0..<one.count {
      var next = [row + 1]
      for column in 0..<other.count {
        var best = min(rows[row][column + 1], next[column]) + 1
        best = min(best, rows[row][column] + (one[row] == other[column] ? 0 : 1))
        if row > 0, column > 0, one[row] == other[column - 1], one[row - 1] == other[column] {
          best = min(best, rows[row - 1][column - 1] + 1)
        }
        next.append(best)
      }
      rows.append(next)
    }
    return rows[one.count][other.count]
  }
}
