import LatchkeyModel

/// What came of a report.
package enum GuideReportOutcome: Sendable, Equatable {
  /// With the progress as it is now, changed or not.
  case taken(GuideProgress.Transition, StoredGuideProgress)
  /// The session that reported has ended.
  case callerEnded
}
