import LatchkeyModel

/// What polls need of one session, in one line of a cache: 64 bytes. `PollLinks` has the rest, or storage.
struct PollEntry {
  let secret: Digest256
  var expires: Timestamp
  private var version: UInt32
  /// The latest version that an answer carried.
  private var delivered: UInt32 = 0
  var clock = PollClock()
  var state: QRSessionState
  var hasMask = false

  /// The number that no entry has.
  static let none = UInt32.max

  init(_ session: QRSession) {
    secret = session.keys.pollSecret
    expires = session.expires
    version = UInt32(clamping: session.version)
    state = session.phase.state
  }

  // A session's versions count its changes: a handful.
  var longVersion: Int64 {
    get { Int64(version) }
    set { version = UInt32(clamping: newValue) }
  }

  var longDelivered: Int64 {
    get { Int64(delivered) }
    set { delivered = UInt32(clamping: newValue) }
  }

  /// The version that a session is issued with.
  static let untouchedVersion: Int64 = 1

  /// As it was issued: nearly all polls find their session so.
  func isUntouched(at now: Timestamp) -> Bool {
    state == .pending && version == PollEntry.untouchedVersion && !hasMask && now < expires
  }

  /// Time ends a session without a write: what is stored as live shows as expired, one version later.
  func view(at now: Timestamp, id: QRSessionID, mask: DisplayText?) -> PollView {
    let isOver = !state.isFinal && now >= expires
    return PollView(
      id: id,
      state: isOver ? .expired : state,
      version: isOver ? longVersion + 1 : longVersion,
      mask: mask
    )
  }
}
