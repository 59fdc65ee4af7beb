import LatchkeyModel

/// What came of issuing a guest.
package enum GuestIssueOutcome: Sendable, Equatable {
  case issued(IssuedGuest)
  case challengeUsed
  /// Two devices hold the key.
  case cloned
  /// The key has no guest, and no more are made.
  case full
  /// Somebody who runs the service keeps the guest out.
  case disabled
}
