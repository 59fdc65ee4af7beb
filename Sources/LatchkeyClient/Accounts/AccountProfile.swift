/// An account as its owner sees it.
public struct AccountProfile: Sendable, Equatable {
  public let subject: SubjectID
  public let profile: Profile
  public let hasPassword: Bool
  /// Milliseconds since 1970 in UTC; nil when the service does not say.
  public let createdAt: Int64?
}
