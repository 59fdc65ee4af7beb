import LatchkeyProtos

/// A guide with how far whoever uses this device has come in it.
public struct GuideView: Sendable, Equatable {
  public enum Status: String, Sendable {
    case notStarted = "not_started"
    case active
    case completed
  }

  public struct Step: Sendable, Equatable {
    public let id: String
    /// The page whose appearance shows the step.
    public let page: String
    /// What the step points at; empty for the end.
    public let target: String
    public let messageKey: String
    public let isReversed: Bool
  }

  public let guideID: String
  public let version: Int64
  /// Empty once the guide is completed.
  public let steps: [Step]
  public let status: Status
  /// The step that is next; -1 once the guide is completed.
  public let cursor: Int
  /// To be sent with the next report.
  public let revision: Int64

  init(id: String, version: Int64, steps: [IdentityV1.GuideStep], progress: IdentityV1.GuideProgress?) {
    guideID = id
    self.version = version
    self.steps = steps.map { step in
      Step(
        id: step.stepID, page: step.page, target: step.target, messageKey: step.messageKey, isReversed: step.reverse)
    }
    switch progress?.status {
    case .active: status = .active
    case .completed: status = .completed
    case .notStarted, .unspecified, .unrecognized, nil: status = .notStarted
    }
    cursor = Int(progress?.cursor ?? 0)
    revision = progress?.revision ?? 0
  }
}
