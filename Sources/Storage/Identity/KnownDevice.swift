import LatchkeyModel

/// A device on record, with how many live sessions of one subject it has.
package struct KnownDevice: Sendable, Equatable {
  package var keyThumbprint: String
  package var label: String?
  package var platform: String?
  package var osVersion: String?
  package var appVersion: String?
  package var firstSeenAt: Timestamp
  package var lastSeenAt: Timestamp
  package var sessions: Int

  package init(
    keyThumbprint: String,
    label: String?,
    platform: String?,
    osVersion: String?,
    appVersion: String?,
    firstSeenAt: Timestamp,
    lastSeenAt: Timestamp,
    sessions: Int
  ) {
    self.keyThumbprint = keyThumbprint
    self.label = label
    self.platform = platform
    self.osVersion = osVersion
    self.appVersion = appVersion
    self.firstSeenAt = firstSeenAt
    self.lastSeenAt = lastSeenAt
    self.sessions = sessions
  }
}
