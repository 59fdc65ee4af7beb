import LatchkeyModel

/// What identity says of a person and of the device of one of their sessions.
package struct SubjectDescription: Sendable, Equatable {
  /// How the account may be named on the initiating screen (S23); nil when it has nothing to be named by.
  package var mask: DisplayText?
  /// The key of the session's device; nil when it has shown none.
  package var deviceKeyThumbprint: String?
  /// A code or a transfer let the device in, so that its key's signature is nobody's word.
  package var isLetIn: Bool

  package init(mask: DisplayText?, deviceKeyThumbprint: String?, isLetIn: Bool = false) {
    self.mask = mask
    self.deviceKeyThumbprint = deviceKeyThumbprint
    self.isLetIn = isLetIn
  }

  /// Whether what its device's key signs is the owner's word.
  package var provesByKey: Bool { deviceKeyThumbprint != nil && !isLetIn }
}
