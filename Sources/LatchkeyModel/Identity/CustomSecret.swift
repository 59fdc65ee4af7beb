/// The secret that goes with a ``CustomID``: made by an app, so it is held to more than what people can remember.
package enum CustomSecret {
  package static let minimumCharacters = 16

  /// For a new one; nil for one that is too short or too long.
  package static func new(_ text: String) -> Password? {
    text.count < minimumCharacters ? nil : Password(new: text)
  }
}
