/// What an app shows about the person who signed in.
public struct Profile: Sendable, Equatable {
  public let name: String
  public let avatarURL: String
  /// A language tag (BCP 47).
  public let locale: String
}
