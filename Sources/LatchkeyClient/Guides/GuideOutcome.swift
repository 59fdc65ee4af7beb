import LatchkeyProtos

/// What became of a guide's step.
public enum GuideOutcome: String, Sendable, CaseIterable {
  case shown
  case done
  case skipped

  var proto: IdentityV1.StepOutcome {
    switch self {
    case .shown: .shown
    case .done: .done
    case .skipped: .skipped
    }
  }
}
