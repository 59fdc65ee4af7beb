/// A language tag (BCP 47): subtags of 1 to 8 ASCII letters and digits, joined by `-`, the first of letters only.
package struct LanguageTag: Sendable, Hashable, LosslessStringConvertible {
  private let text: String

  package init?(_ text: String) {
    guard (2...35).contains(text.utf8.count) else { return nil }
    let subtags = text.split(separator: "-", omittingEmptySubsequences: false)
    for subtag in subtags {
      guard (1...8).contains(subtag.utf8.count), subtag.utf8.allSatisfy(\.isASCIIAlphanumeric) else { return nil }
    }
    guard subtags[0].utf8.count >= 2, subtags[0].utf8.allSatisfy(\.isASCIILetter) else { return nil }
    self.text = text
  }

  package var description: String { text }
}
