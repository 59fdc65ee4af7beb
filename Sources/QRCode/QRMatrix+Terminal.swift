/// How a terminal is told which cells are dark.
package enum TerminalStyle: Sendable {
  /// White ink on black by escape sequences, whatever the terminal's own colours: readable on dark and light ones.
  case coloured
  /// Characters only, for files and terminals without colour: it reads right on a dark background, and inverted on a
  /// light one (which most phone cameras read as well).
  case plain
}

extension QRMatrix {
  /// The symbol as lines of text, two rows of modules to a line, so that its cells come out about square.
  ///
  /// The light modules are the ones drawn, on a dark ground. Letters leave a gap between two lines at many sizes: a dark
  /// one through light modules is narrower than any module and cameras read across it, while a light one takes finder
  /// patterns apart.
  package func terminalText(quietZone: Int = 4, style: TerminalStyle = .coloured) throws(QRCodeError) -> String {
    try QRMatrix.checkLayout(quietZone: quietZone)
    var text = ""
    var row = -quietZone
    while row < size + quietZone {
      if style == .coloured { text += "\u{1B}[38;5;231;48;5;16m" }
      for column in -quietZone..<(size + quietZone) {
        let upper = isDark(row: row, column: column)
        let lower = isDark(row: row + 1, column: column)
        text += QRMatrix.cell(upper: !upper, lower: !lower)
      }
      if style == .coloured { text += "\u{1B}[0m" }
      text += "\n"
      row += 2
    }
    return text
  }

  /// Columns and lines of ``terminalText(quietZone:style:)``.
  package func terminalSize(quietZone: Int = 4) -> (columns: Int, lines: Int) {
    let side = size + 2 * quietZone
    return (side, (side + 1) / 2)
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
