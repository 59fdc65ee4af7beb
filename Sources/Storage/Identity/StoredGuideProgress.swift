import LatchkeyModel

/// A subject's progress in one guide, as it is on record.
package struct StoredGuideProgress: Sendable, Equatable {
  package var guide: GuideID
  package var progress: GuideProgress
  package var updatedAt: Timestamp

  package init(guide: GuideID, progress: GuideProgress, updatedAt: Timestamp) {
    self.guide = guide
    self.progress = progress
    self.updatedAt = updatedAt
  }
}
