import LatchkeyModel

/// What came of a logout.
package enum LogOutOutcome: Sendable, Equatable {
  case loggedOut(ended: Int, guest: IssuedGuest?)
  /// The caller's session had ended already.
  case sessionEnded
  /// A guest was asked for on a device that has shown no key. Nothing changed.
  case noDevice
  /// The caller's session is unconfirmed, so it may not end the others. Nothing changed.
  case unconfirmed
}
