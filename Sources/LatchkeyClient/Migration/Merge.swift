/// A merge of a guest's data into an account, as far as it has come.
public struct Merge: Sendable, Equatable {
  public enum State: String, Sendable {
    case queued, running
    /// It cannot go on; what was merged is being taken back, and then it has ``failed``.
    case undoing
    case done, failed
  }

  /// What happened to the guest's rows of one collection.
  public struct Collection: Sendable, Equatable {
    public let name: String
    /// Nil for a policy that this version of the library does not know.
    public let policy: MergePolicy?
    /// Rows that the account did not have before.
    public let moved: Int64
    /// Conflicts in which the account's row stayed, the guest's won, or both were combined.
    public let kept: Int64
    public let replaced: Int64
    public let combined: Int64
    public let refused: Int64
    /// Rows that the account holds now.
    public let accountRows: Int64
  }

  public let id: String
  public let state: State
  /// Such as `apply`; empty before the first step.
  public let step: String
  public let done: Int64
  public let total: Int64
  public let report: [Collection]
  /// Why it failed, for ``State/undoing`` and ``State/failed``.
  public let failure: String

  public var isFinished: Bool { state == .done || state == .failed }
}
