import LatchkeyModel

/// What was issued to devices that showed a QR code.
package protocol QRGrantStore: Sendable {
  /// Begins the session of a device whose code was confirmed. Idempotent for each QR session: a repeated call ends what
  /// the earlier one began.
  func issue(_ grant: QRGrant) async throws(StorageError) -> QRGrantOutcome

  /// The session that confirmed, for a grant that begins none.
  func confirmer(
    _ session: SessionID, of subject: SubjectID, for qrSession: String, at now: Timestamp
  ) async throws(StorageError) -> QRConfirmerOutcome
}
