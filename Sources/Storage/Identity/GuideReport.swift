import LatchkeyModel

/// What an app says became of a step.
package struct GuideReport: Sendable {
  package var session: SessionID
  package var guide: GuideDefinition
  package var step: GuideID
  package var outcome: GuideProgress.Outcome
  package var expectedRevision: Int64
  package var now: Timestamp

  package init(
    session: SessionID,
    guide: GuideDefinition,
    step: GuideID,
    outcome: GuideProgress.Outcome,
    expectedRevision: Int64,
    now: Timestamp
  ) {
    self.session = session
    self.guide = guide
    self.step = step
    self.outcome = outcome
    self.expectedRevision = expectedRevision
    self.now = now
  }
}
