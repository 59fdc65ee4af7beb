import LatchkeyModel

/// What polls need of one session, in one line of a cache: 64 bytes. `PollLinks` has the rest, or storage.
struct PollEntry {
  let secret: Digest256
  private(set) var expires: Timestamp
  private var version: UInt32
  /// The latest version that an answer carried.
  private var delivered: UInt32 = 0
  var clock = PollClock()
  var state: QRSessionState
  var hasMask = false
  /// Whether those who waited were told that its time is over.
  var isToldOver = false
  /// How many milliseconds before `expires` the clock may stand at the most: before that, it was set back.
  private var span: UInt32 = 0

  /// The number that no entry has.
  static let none = UInt32.max

  init(_ session: QRSession) {
    secret = session.keys.pollSecret
    expires = session.expires
    version = UInt32(clamping: session.version)
    state = session.phase.state
    setTime(issued: session.issued, expires: session.expires)
  }

  /// Takes over how long the session lasts.
  mutating func setTime(issued: Timestamp, expires: Timestamp) {
    self.expires = expires
    span = UInt32(clamping: (expires - (issued - QRLimits.clockStep)).wholeMilliseconds)
    isToldOver = false
  }

  /// Its time is over, whatever the clock says from here on.
  mutating func endTime(at now: Timestamp) {
    expires = now
    span = 0
  }

  /// Whether the clock was set back to before the session's time, for a session that does not outlast that
  /// (`QRSession.state`).
  func isBeforeTime(_ now: Timestamp) -> Bool {
    state != .confirmed && span > 0 && expires.millisecondsSinceEpoch &- now.millisecondsSinceEpoch > Int64(span)
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
    state == .pending && version == PollEntry.untouchedVersion && !hasMask && isInTime(now)
  }

  private func isInTime(_ now: Timestamp) -> Bool {
    let left = expires.millisecondsSinceEpoch &- now.millisecondsSinceEpoch
    return left > 0 && (left <= Int64(span) || state == .confirmed)
  }

  /// Time ends a session without a write: what is stored as live shows as expired, one version later.
  func view(at now: Timestamp, id: QRSessionID, mask: DisplayText?) -> PollView {
    let isOver = !state.isFinal && !isInTime(now)
    return PollView(
      id: id,
      state: isOver ? .expired : state,
      version: isOver ? longVersion + 1 : longVersion,
      mask: mask
    )
  }
}
