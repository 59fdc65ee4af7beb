import LatchkeyModel

/// A device that a subject is signed in on, or that can sign in to it by itself.
package struct KnownDevice: Sendable, Equatable {
  package var keyThumbprint: String
  package var label: String?
  package var platform: String?
  package var osVersion: String?
  package var appVersion: String?
  package var firstSeenAt: Timestamp
  package var lastSeenAt: Timestamp
  /// How many live sessions of the subject it has.
  package var sessions: Int
  package var binding: DeviceBinding?

  package init(
    keyThumbprint: String,
    label: String?,
    platform: String?,
    osVersion: String?,
    appVersion: String?,
    firstSeenAt: Timestamp,
    lastSeenAt: Timestamp,
    sessions: Int,
    binding: DeviceBinding? = nil
  ) {
    self.keyThumbprint = keyThumbprint
    self.label = label
    self.platform = platform
    self.osVersion = osVersion
    self.appVersion = appVersion
    self.firstSeenAt = firstSeenAt
    self.lastSeenAt = lastSeenAt
    self.sessions = sessions
    self.binding = binding
  }
}
