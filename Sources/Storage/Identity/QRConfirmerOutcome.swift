import LatchkeyModel

/// Whether the session that confirmed a code still speaks for its account.
package enum QRConfirmerOutcome: Sendable, Equatable {
  case live(Session)
  /// It ended, is another's, or is a guest's.
  case gone
  /// What the code granted was revoked.
  case revoked
}
