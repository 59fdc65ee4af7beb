/// A collection that the caller has rows in.
public struct RecordCollection: Sendable, Equatable {
  public let name: String
  public let count: Int64
  /// What a merge does with it, unless the merge says otherwise. Nil for a policy that this version does not know.
  public let policy: MergePolicy?
}
