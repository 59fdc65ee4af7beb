/// A short text that a person typed and other people will read: one line, no control or invisible characters, no space
/// at its ends, no marks heaped up over the lines around it. It can stand in a log line or a confirm screen without
/// pretending to be more.
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

  package init?(_ text: String, maximumCharacters: Int) {
    guard !text.isEmpty, text.utf8.count <= Self.maximumBytes, text.count <= maximumCharacters else { return nil }
    guard text.first?.isWhitespace == false, text.last?.isWhitespace == false else { return nil }
    var marks = 0
    for scalar in text.unicodeScalars {
      let category = scalar.properties.generalCategory
      marks = category == .nonspacingMark || category == .enclosingMark ? marks + 1 : 0
      guard marks <= Self.maximumMarks, !Self.isBlank(scalar) else { return nil }
      switch category {
      case .control, .lineSeparator, .paragraphSeparator, .surrogate, .privateUse, .unassigned: return nil
      // A joiner builds one emoji out of several and is harmless; the other formats reorder or hide text.
      case .format where scalar != "\u{200D}": return nil
      default: continue
      }
    }
    self.text = text
  }

  /// Drawn as nothing, or as a space that is none. What chooses between forms of an emoji is harmless.
  private static func isBlank(_ scalar: Unicode.Scalar) -> Bool {
    if scalar == "\u{200D}" || scalar == "\u{FE0F}" || scalar == "\u{FE0E}" { return false }
    return scalar.properties.isDefaultIgnorableCodePoint || scalar == "\u{2800}"
  }

  package var description: String { text }
}
