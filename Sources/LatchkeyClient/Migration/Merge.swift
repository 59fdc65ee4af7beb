/// A merge of a guest's data into an account, as far as it has come.
public struct Merge: Sendable, Equatable {
  public enum State: String, Sendable {
    case queued, running
    /// What was merged is being taken back, because it cannot go on or somebody asked for it; then it has ``failed``, or
    /// is ``undone``.
    case undoing
    case done, failed, undone
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
    /// Conflicts that were left to a person.
    public let asked: Int64
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
  /// Why it failed, for ``State/undoing`` and ``State/failed``; why it was not taken back, for ``State/done``.
  public let failure: String
  /// Until when it can be taken back, in milliseconds since 1970; nil when it cannot.
  public let undoUntil: Int64?
  /// When it was asked for, in milliseconds since 1970.
  public let createdAt: Int64?

  public var isFinished: Bool { state == .done || state == .failed || state == .undone }
}
