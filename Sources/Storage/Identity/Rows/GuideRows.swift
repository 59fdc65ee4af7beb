import LatchkeyModel

/// How far subjects have come in guides, by subject and guide.
package protocol GuideRows {
  func find(_ guide: GuideID, of subject: SubjectID) async throws(StorageError) -> StoredGuideProgress?

  func lock(_ guide: GuideID, of subject: SubjectID) async throws(StorageError) -> StoredGuideProgress?

  /// Every guide that a subject began, by their ids.
  func all(of subject: SubjectID) async throws(StorageError) -> [StoredGuideProgress]

  func put(_ progress: StoredGuideProgress, of subject: SubjectID) async throws(StorageError)

  func remove(of subject: SubjectID) async throws(StorageError)
}
