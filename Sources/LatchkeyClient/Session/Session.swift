/// A signed-in guest or account on this device. The tokens stay inside the library.
public struct Session: Sendable, Equatable {
  public let subject: SubjectID
  public let isGuest: Bool
  /// What a list of sessions shows and what revoking one names.
  public let sessionID: String
  /// Names the storage area (database, files) of this subject on this device.
  public let storageNamespace: String
  /// Space-separated scopes (RFC 6749 section 3.3).
  public let scope: String
}
