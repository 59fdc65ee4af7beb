/// What a merge would do, without doing it.
public struct MergePlan: Sendable, Equatable {
  public let id: String
  /// Changes when the data it was made from changes; starting a stale plan is refused.
  public let digest: String
  public let collections: [Collection]
  public let expiresIn: Duration

  public struct Collection: Sendable, Equatable {
    public let name: String
    /// Rows of the guest, rows of the account, and keys that both hold.
    public let guestRows: Int64
    public let accountRows: Int64
    public let conflicts: Int64
    /// Nil for a policy that this version of the library does not know.
    public let policy: MergePolicy?
    /// Rows that the account may not take.
    public let refused: Int64
  }
}
