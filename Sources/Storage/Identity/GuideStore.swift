import LatchkeyModel

/// How far subjects have come in guides.
package protocol GuideStore: Sendable {
  /// Every guide that the subject began.
  func progress(of subject: SubjectID) async throws(StorageError) -> [StoredGuideProgress]

  /// Nil when the subject has not begun the guide.
  func progress(of subject: SubjectID, in guide: GuideID) async throws(StorageError) -> StoredGuideProgress?

  /// Takes a report in, as one change, in the name of the caller's session.
  func report(_ report: GuideReport) async throws(StorageError) -> GuideReportOutcome

  /// Begins a guide anew for each of the subjects, as one change. Returns whose progress that changed.
  func reset(_ guide: GuideID, of subjects: [SubjectID], at now: Timestamp) async throws(StorageError) -> [SubjectID]
}
