/// A short text that a person typed and other people will read: one line, no control or invisible formatting
/// characters, no space at its ends. It can stand in a log line or a confirm screen without pretending to be more.
package struct DisplayText: Sendable, Hashable, LosslessStringConvertible {
  package static let maximumCharacters = 64
  package static let maximumBytes = 256

  private let text: String

  /// Nil for an empty or unfit text.
  package init?(_ text: String) {
    self.init(text, maximumCharacters: Self.maximumCharacters)
  }

  package init?(_ text: String, maximumCharacters: Int) {
    guard !text.isEmpty, text.utf8.count <= Self.maximumBytes, text.count <= maximumCharacters else { return nil }
    guard text.first?.isWhitespace == false, text.last?.isWhitespace == false else { return nil }
    for scalar in text.unicodeScalars {
      switch scalar.properties.generalCategory {
      case .control, .lineSeparator, .paragraphSeparator, .surrogate, .privateUse, .unassigned: return nil
      // A joiner builds one emoji out of several and is harmless; the other formats reorder or hide text.
      case .format where scalar != "\u{200D}": return nil
      default: continue
      }
    }
    self.text = text
  }

  package var description: String { text }
}
