import LatchkeyModel

/// What came of issuing a guest.
package enum GuestIssueOutcome: Sendable, Equatable {
  case issued(IssuedGuest)
  case challengeUsed
}
