import LatchkeyProtos

/// What happens when a guest and an account both hold a key.
public enum MergePolicy: String, Sendable, CaseIterable {
  /// The account's row stays.
  case keepTarget = "keep-target"
  /// The guest's row replaces the account's.
  case keepSource = "keep-source"
  /// The row with the later time stays.
  case newest
  /// Items of both lists, each key once.
  case unionByKey = "union-by-key"
  /// Numbers are added.
  case sum
  /// The larger number stays.
  case max
  /// Both rows stay, the guest's under a key of its own.
  case append
  /// The account's row stays and the guest's is set aside, until a person decides.
  case ask

  var proto: MigrationV1.Policy {
    switch self {
    case .keepTarget: .keepTarget
    case .keepSource: .keepSource
    case .newest: .newest
    case .unionByKey: .unionByKey
    case .sum: .sum
    case .max: .max
    case .append: .append
    case .ask: .ask
    }
  }

  init?(_ proto: MigrationV1.Policy) {
    guard let policy = Self.allCases.first(where: { $0.proto == proto }) else { return nil }
    self = policy
  }
}
