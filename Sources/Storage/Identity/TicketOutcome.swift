/// What came of keeping a link ticket.
package enum TicketOutcome: Sendable, Equatable {
  case kept
  /// The code was spent, or its identifier leads elsewhere, since it was looked up.
  case credentialChanged
  /// The challenge was answered before.
  case challengeUsed
  case guestGone
}
