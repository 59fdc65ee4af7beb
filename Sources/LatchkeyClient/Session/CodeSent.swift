/// A one-time code is on its way, if the address is one that it is sent to.
public struct CodeSent: Sendable, Equatable {
  /// For how long the code holds.
  public let expiresIn: Duration
  /// When another may be asked for.
  public let resendAfter: Duration
  /// How often the code may be tried.
  public let attemptsLeft: Int
}
