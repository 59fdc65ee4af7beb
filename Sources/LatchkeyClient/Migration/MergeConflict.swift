import LatchkeyProtos

/// A guest's row that a merge set aside, with what the account holds in its place.
public struct MergeConflict: Sendable, Equatable {
  public enum Reason: String, Sendable {
    /// The collection's policy is ``MergePolicy/ask``.
    case ask
    /// The account holds as many rows of the collection as it may.
    case noRoom = "no-room"
    /// The sum of the two numbers is larger than a number can be.
    case overflow
    /// No key could be made for ``MergePolicy/append``.
    case noKey = "no-key"
  }

  public struct Row: Sendable, Equatable {
    public let value: [UInt8]
    public let number: Int64
    /// Milliseconds since 1970.
    public let updatedAt: Int64?
    /// Of the account's row.
    public let revision: Int64
  }

  public let collection: String
  public let key: String
  /// Nil for a reason that this version of the library does not know.
  public let reason: Reason?
  public let guest: Row
  /// Nil when the account holds nothing under this name.
  public let account: Row?
}

extension MergeConflict {
  init(_ proto: MigrationV1.Conflict) throws(ClientError) {
    guard let guest = proto.guest else { throw .incompleteAnswer("Conflict.guest") }
    collection = proto.collection
    key = proto.key
    reason =
      switch proto.reason {
      case .ask: .ask
      case .noRoom: .noRoom
      case .overflow: .overflow
      case .noKey: .noKey
      case .unspecified, .unrecognized: nil
      }
    self.guest = Row(guest)
    account = proto.account.map { Row($0) }
  }
}

extension MergeConflict.Row {
  init(_ proto: MigrationV1.ConflictRow) {
    value = proto.value
    number = proto.number
    updatedAt = proto.updatedAt?.millisecondsSinceEpoch
    revision = proto.revision
  }
}
