/// The choice between a guest's data and an existing account.
public struct SignInConflict: Sendable, Equatable {
  /// Redeems the choice without the credential, within its lifetime, on this device.
  public let linkTicket: String
  /// The account, masked, such as `a***@e***.com`.
  public let existingMask: String
  /// Rows that the guest holds, for each collection.
  public let guestRows: [Collection]
  public let choices: [ConflictChoice]
  public let expiresIn: Duration

  public struct Collection: Sendable, Equatable {
    public let name: String
    public let count: Int64
  }
}
