/// Which of an installation's cells something belongs to. Each cell has databases of its own; 0 is the only one unless
/// more are configured.
///
/// The text of an id, code or token of another cell than 0 begins with the cell's number and a dot, behind the prefix that
/// says what it is: `3.` or `lkr_3.`. One without is of cell 0, as were all before there were cells. The number says where
/// to ask and nothing else: nobody is let in by it, and what follows it is as long and random as without.
package struct Cell: Sendable, Hashable, Comparable, CustomStringConvertible {
  package static let first = Cell(0)
  /// Characters of the longest prefix: `65535.`.
  package static let longestPrefix = 6

  package let number: UInt16

  package init(_ number: UInt16) {
    self.number = number
  }

  /// What texts of this cell begin with; empty for cell 0.
  package var prefix: String { number == 0 ? "" : "\(number)." }

  /// The number, the higher byte first.
  package var bytes: [UInt8] { [UInt8(number >> 8), UInt8(truncatingIfNeeded: number)] }

  package var description: String { String(number) }

  package static func < (left: Cell, right: Cell) -> Bool { left.number < right.number }

  /// The cell that a text names, and what comes behind that.
  ///
  /// Each cell has one form: what does not begin with it exactly, such as `03.` and `0.`, names none and is left as it is,
  /// which is no id then, for none has a dot.
  package static func read(_ text: some StringProtocol) -> (cell: Cell, rest: Substring) {
    let text = Substring(text)
    let digits = text.utf8.prefix(longestPrefix - 1).prefix { $0.isASCIIDigit }
    let rest = text.utf8[digits.endIndex...]
    guard rest.first == UInt8(ascii: "."), digits.first != UInt8(ascii: "0"), let number = UInt16(Substring(digits))
    else { return (first, text) }
    return (Cell(number), Substring(rest.dropFirst()))
  }
}

/// What a service belongs to.
package struct Cells: Sendable, Equatable {
  /// The cell of what the service itself makes, and of its database.
  package let own: Cell
  /// The cell of identity, whose subjects and sessions these are.
  package let identity: Cell

  package init(own: Cell = .first, identity: Cell? = nil) {
    self.own = own
    self.identity = identity ?? own
  }
}
