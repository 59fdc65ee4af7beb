/// A short text that a person typed and other people will read: one line, no control or invisible characters, no space
/// at its ends, no marks heaped up over the lines around it. It can stand in a log line without pretending to be more.
///
/// Names may have emoji of several parts; what a phone asks a person to agree to may not (`isPlain`), because whether
/// its joiners and selectors show as anything depends on the phone (UTS 39 section 3.1).
package struct DisplayText: Sendable, Hashable, LosslessStringConvertible {
  package static let maximumCharacters = 64
  package static let maximumBytes = 256
  /// Marks above and below one letter: no language needs more, and further ones run into other lines.
  package static let maximumMarks = 5

  private let text: String

  /// Nil for an empty or unfit text.
  package init?(_ text: String) {
    self.init(text, maximumCharacters: Self.maximumCharacters)
  }

  /// A text that has nothing in it that is not seen. Nil for an empty or unfit one.
  package init?(plain text: String, maximumCharacters: Int = Self.maximumCharacters) {
    self.init(text, maximumCharacters: maximumCharacters, isPlain: true)
  }

  package init?(_ text: String, maximumCharacters: Int, isPlain: Bool = false) {
    guard !text.isEmpty, text.utf8.count <= Self.maximumBytes, text.count <= maximumCharacters else { return nil }
    guard text.first?.isWhitespace == false, text.last?.isWhitespace == false else { return nil }
    let scalars = Array(text.unicodeScalars)
    var marks = 0
    for (index, scalar) in scalars.enumerated() {
      if scalar.isASCII {
        // Nothing else of it is unseen than what controls; its properties need not be looked up.
        guard scalar.value >= 0x20, scalar.value != 0x7F else { return nil }
        marks = 0
        continue
      }
      if Self.joinsEmoji(scalar) {
        guard !isPlain, Self.isInEmoji(scalars, at: index) else { return nil }
        continue
      }
      let category = scalar.properties.generalCategory
      marks = category == .nonspacingMark || category == .enclosingMark ? marks + 1 : 0
      guard marks <= Self.maximumMarks, !Self.isBlank(scalar) else { return nil }
      switch category {
      case .control, .format, .lineSeparator, .paragraphSeparator, .surrogate, .privateUse, .unassigned: return nil
      default: continue
      }
    }
    self.text = text
  }

  /// What builds one emoji out of several, or chooses between forms of one.
  private static func joinsEmoji(_ scalar: Unicode.Scalar) -> Bool {
    scalar == "\u{200D}" || scalar == "\u{FE0F}" || scalar == "\u{FE0E}"
  }

  /// Whether a joiner is between emoji, and a selector behind one: anywhere else they are not seen.
  private static func isInEmoji(_ scalars: [Unicode.Scalar], at index: Int) -> Bool {
    guard index > 0 else { return false }
    let previous = scalars[index - 1]
    guard scalars[index] == "\u{200D}" else { return previous.properties.isEmoji }
    guard index + 1 < scalars.count else { return false }
    let isBehindEmoji = previous == "\u{FE0F}" || isPicture(previous)
    return isBehindEmoji && isPicture(scalars[index + 1])
  }

  private static func isPicture(_ scalar: Unicode.Scalar) -> Bool {
    scalar.properties.isEmoji && !scalar.isASCII
  }

  /// Drawn as nothing, as a space that is none, or in place of something that is not there.
  private static func isBlank(_ scalar: Unicode.Scalar) -> Bool {
    scalar.properties.isDefaultIgnorableCodePoint || scalar == "\u{2800}" || scalar == "\u{FFFC}"
  }

  package var description: String { text }
}
