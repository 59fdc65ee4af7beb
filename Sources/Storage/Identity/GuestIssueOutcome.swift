import LatchkeyModel

/// What came of issuing a guest.
package enum GuestIssueOutcome: Sendable, Equatable {
  case issued(IssuedGuest)
  case challengeUsed
  /// Two devices hold the key.
  case cloned
  /// Somebody who runs the service keeps the guest out.
  case disabled
}
