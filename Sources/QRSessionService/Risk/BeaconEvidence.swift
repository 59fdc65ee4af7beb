/// What the phone heard of the screen's beacon.
enum BeaconEvidence: Sendable, Equatable {
  /// The screen's own.
  case heard
  /// Others, and not the screen's.
  case wrong
  /// None at all: no radio, no permission, or an app that does not listen.
  case none
}
