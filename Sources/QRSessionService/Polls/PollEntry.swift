import LatchkeyModel

/// What polls need of one session, in about 100 bytes; the rest is in storage.
struct PollEntry {
  let secret: Digest256
  let id: QRSessionID
  var expires: Timestamp
  var version: Int64
  /// The latest version that an answer carried.
  var delivered: Int64 = 0
  var clock = PollClock()
  var state: QRSessionState
  var hasMask = false
  /// Neighbours in the list of a wheel slot, or in the list of free entries.
  var next = PollEntry.none
  var previous = PollEntry.none

  /// The first of those who wait for a change.
  var firstWaiter = PollEntry.none

  static let none = UInt32.max

  init(_ session: QRSession) {
    secret = session.keys.pollSecret
    id = session.id
    expires = session.expires
    version = session.version
    state = session.phase.state
  }

  /// Time ends a session without a write: what is stored as live shows as expired, one version later.
  func view(at now: Timestamp, mask: DisplayText?) -> PollView {
    let isOver = !state.isFinal && now >= expires
    return PollView(
      id: id,
      state: isOver ? .expired : state,
      version: isOver ? version + 1 : version,
      mask: mask
    )
  }
}
