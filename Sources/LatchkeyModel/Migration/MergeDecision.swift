/// What a policy decided about one record of a guest.
package enum MergeDecision: Sendable, Equatable {
  /// The account had none: it gets the guest's.
  case move(RecordContent)
  /// The account's stays as it is.
  case keep
  /// The guest's takes its place.
  case replace(RecordContent)
  /// Both went into one.
  case combine(RecordContent)
  /// Both stay: the guest's goes under a key of its own.
  case append(RecordContent)
  /// The account's stays until a person has decided. The guest's is set aside.
  case ask
  /// The account may not take it. The record is set aside, not lost.
  case refuse(ConflictReason)

  package var outcome: MergeOutcome {
    switch self {
    case .move, .append: .moved
    case .keep: .kept
    case .replace: .replaced
    case .combine: .summed
    case .refuse: .refused
    case .ask: .asked
    }
  }

  /// Why the guest's record is set aside; nil when it is not.
  package var conflict: ConflictReason? {
    switch self {
    case .refuse(let reason): reason
    case .ask: .ask
    case .move, .keep, .replace, .combine, .append: nil
    }
  }

  /// What to write for the account; nil leaves its record as it is.
  package var content: RecordContent? {
    switch self {
    case .move(let content), .replace(let content), .combine(let content), .append(let content): content
    case .keep, .refuse, .ask: nil
    }
  }
}
