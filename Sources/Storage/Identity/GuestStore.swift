import LatchkeyModel

/// Guests and the devices they live on.
package protocol GuestStore: Sendable {
  /// Finds the guest of a device key or makes it, spends the challenge and begins a session, as one change. Idempotent
  /// for each key: however often and however concurrently it is called, a key has one guest, and the guest one session
  /// on the device.
  func issue(_ issue: GuestIssue) async throws(StorageError) -> GuestIssueOutcome
}
