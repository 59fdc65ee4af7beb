/// How a terminal is told which cells are dark.
package enum TerminalStyle: Sendable {
  /// Black on white by escape sequences, whatever the terminal's own colours: readable on dark and light ones.
  case coloured
  /// Characters only, for files and terminals without colour: light modules are drawn, so it reads right on a dark
  /// background and inverted on a light one (which most phone cameras read as well).
  case plain
}

extension QRMatrix {
  /// The symbol as lines of text, two rows of modules to a line, so that its cells come out about square.
  package func terminalText(quietZone: Int = 4, style: TerminalStyle = .coloured) throws(QRCodeError) -> String {
    try QRMatrix.checkLayout(quietZone: quietZone)
    var text = ""
    var row = -quietZone
    while row < size + quietZone {
      if style == .coloured { text += "\u{1B}[38;5;16;48;5;231m" }
      for column in -quietZone..<(size + quietZone) {
        let upper = isDark(row: row, column: column)
        let lower = isDark(row: row + 1, column: column)
        switch style {
        case .coloured: text += QRMatrix.cell(upper: upper, lower: lower)
        case .plain: text += QRMatrix.cell(upper: !upper, lower: !lower)
        }
      }
      if style == .coloured { text += "\u{1B}[0m" }
      text += "\n"
      row += 2
    }
    return text
  }

  /// The character whose ink covers the named halves.
  private static func cell(upper: Bool, lower: Bool) -> String {
    switch (upper, lower) {
    case (true, true): "█"
    case (true, false): "▀"
    case (false, true): "▄"
    case (false, false): " "
    }
  }
}
