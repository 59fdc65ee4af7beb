import LatchkeyModel

/// What identity says of a person and of the device of one of their sessions.
package struct SubjectDescription: Sendable, Equatable {
  /// How the account may be named on the initiating screen (S23); nil when it has nothing to be named by.
  package var mask: DisplayText?
  /// The key of the session's device; nil when it has shown none.
  package var deviceKeyThumbprint: String?

  package init(mask: DisplayText?, deviceKeyThumbprint: String?) {
    self.mask = mask
    self.deviceKeyThumbprint = deviceKeyThumbprint
  }
}
