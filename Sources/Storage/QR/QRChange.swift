import LatchkeyModel

/// What pollers see of a session's change: one version of it.
package struct QRChange: Sendable, Equatable {
  package let pollSecret: Digest256
  package let version: Int64
  package let state: QRSessionState
  package let issued: Timestamp
  package let expires: Timestamp
  /// The account that scanned, masked.
  package let mask: DisplayText?

  package init(
    pollSecret: Digest256, version: Int64, state: QRSessionState, issued: Timestamp, expires: Timestamp,
    mask: DisplayText?
  ) {
    self.pollSecret = pollSecret
    self.version = version
    self.state = state
    self.issued = issued
    self.expires = expires
    self.mask = mask
  }

  package init(_ session: QRSession) {
    self.init(
      pollSecret: session.keys.pollSecret, version: session.version, state: session.phase.state,
      issued: session.issued, expires: session.expires, mask: session.claim?.mask)
  }
}

/// Up to where changes were read, in the engine's own words.
package struct QRChangeMark: Sendable, Equatable {
  /// Who said so: nobody else understands it.
  package let server: String
  package let state: String
  /// How far a reading in pages has come; nil when there is nothing more to read at once.
  package let place: Place?

  package init(server: String, state: String, place: Place? = nil) {
    self.server = server
    self.state = state
    self.place = place
  }

  /// A change among those that are read.
  package struct Place: Sendable, Equatable {
    package let at: Int64
    package let row: String
    /// The state up to which is read what came since the mark's; nil where what another server told before is read again.
    package let end: String?

    package init(at: Int64, row: String, end: String? = nil) {
      self.at = at
      self.row = row
      self.end = end
    }
  }
}

/// Changes that were read, and the mark to go on from.
package struct QRChanges: Sendable, Equatable {
  package let changes: [QRChange]
  package let mark: QRChangeMark

  package init(_ changes: [QRChange], mark: QRChangeMark) {
    self.changes = changes
    self.mark = mark
  }
}
