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
  /// The account may not take it. The record is set aside, not lost.
  case refuse(RefusalReason)

  package var outcome: MergeOutcome {
    switch self {
    case .move: .moved
    case .keep: .kept
    case .replace: .replaced
    case .combine: .summed
    case .refuse: .refused
    }
  }

  /// What to write for the account; nil leaves its record as it is.
  package var content: RecordContent? {
    switch self {
    case .move(let content), .replace(let content), .combine(let content): content
    case .keep, .refuse: nil
    }
  }
}
