/// What came of making a guest one again.
package enum RestoreOutcome: Sendable, Equatable {
  case restored
  /// It is a guest: said before.
  case already
  case unknownGuest
  /// It is not part of that account.
  case refused
  /// Its device has another guest by now, or is on record no more: nobody could be this guest.
  case replaced
}
