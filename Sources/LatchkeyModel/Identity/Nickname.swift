/// What an account calls itself: at most 10 characters, as a person counts them.
package struct Nickname: Sendable, Hashable, LosslessStringConvertible {
  package static let maximumCharacters = 10

  private let text: DisplayText

  package init?(_ text: String) {
    guard let text = DisplayText(text, maximumCharacters: Self.maximumCharacters) else { return nil }
    self.text = text
  }

  package var description: String { text.description }
}
