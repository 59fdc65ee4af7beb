/// What came of removing a device.
package enum DeviceRemovalOutcome: Sendable, Equatable {
  case removed(sessionsEnded: Int)
  /// The caller's session is unconfirmed, so it may not touch other devices.
  case unconfirmed
  /// The caller's session has ended.
  case callerEnded
}
