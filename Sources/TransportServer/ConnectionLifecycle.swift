internal import HTTP2
internal import NIOCore

/// When a server's connection is asked for a sign of life, told to finish, and closed.
///
/// ```
/// open ──drain──▶ announced ──PING answered, or a round trip's time──▶ fixed
///   │                 └────────────── grace ───────────────────────────┴──▶ closed
///   └── idle ──▶ fixed
/// ```
///
/// A value that knows no socket, no session and no clock: each event comes with its time and answers what the connection
/// has to do, if anything.
struct ConnectionLifecycle {
  /// What is configured.
  struct Rules {
    var idleTimeout: TimeAmount
    var keepaliveInterval: TimeAmount
    var keepaliveTimeout: TimeAmount
    /// How old this connection may become.
    var maximumAge: TimeAmount?
    var drainGrace: TimeAmount
    var stalledWriteTimeout: TimeAmount
  }

  /// What only the connection knows when a time has come.
  struct Situation {
    var openStreams: Int
    /// When there last was a stream.
    var lastStream: NIODeadline
    /// It is us who hold the peer up.
    var isBehind: Bool
    /// What the peer sends is left in the socket.
    var isUnread = false
    /// When the frame began to come that has not ended.
    var frameBegan: NIODeadline?
  }

  enum Action: Equatable {
    /// GOAWAY with an error, and the end.
    case terminate(Fault)
    /// GOAWAY that names no last stream, and a PING: what was sent before its answer is still served.
    case announceShutdown(ping: UInt64)
    /// GOAWAY with the last stream; the connection ends with it.
    case shutDown
    case ping(UInt64)
    case close
    /// The peer has waited long enough.
    case readOn
    case lookAtBlockedStreams
    case freeSpares
  }

  /// What a peer did that its connection does not outlive.
  enum Fault: Equatable {
    case settingsTimeout, headerTimeout, frameTimeout, tooManyPings, tooManySmallFrames

    var code: HTTP2ErrorCode { self == .settingsTimeout ? .settingsTimeout : .enhanceYourCalm }

    /// The debug data of its GOAWAY.
    var debug: StaticString {
      switch self {
      case .settingsTimeout: ""
      case .headerTimeout: "header_timeout"
      case .frameTimeout: "frame_timeout"
      case .tooManyPings: "too_many_pings"
      case .tooManySmallFrames: "too_many_small_frames"
      }
    }
  }

  enum Drain {
    case none
    /// GOAWAY 2^31-1 is out; its PING is under way.
    case announced
    /// The last stream is fixed.
    case fixed
  }

  /// Tell the answer to a keepalive PING from that to a drain's.
  static let keepalivePayload: UInt64 = 0x616c_6976_653f_3f3f
  static let drainPayload: UInt64 = 0x6c61_7463_686b_6579

  private let rules: Rules
  private var timers = ConnectionTimers()
  private(set) var drain = Drain.none
  /// The peer was too fast: it is not read for a while.
  private(set) var isPaused = false
  /// When the peer last gave a sign of life, and when it was last asked for one.
  private var lastRead: NIODeadline
  /// When the peer was last read on whom we had left unread.
  private var lastReadOn = NIODeadline.uptimeNanoseconds(0)
  private var lastAsked: NIODeadline
  private var lastPing: NIODeadline?
  private var pingStrikes = 0
  private var smallData: Budget
  /// Whether the header block that is being received has its time.
  private(set) var isBlockTimed = false

  init(_ rules: Rules, at now: NIODeadline) {
    self.rules = rules
    lastRead = now
    lastAsked = now
    smallData = Budget(Limits.smallDataFrames, now: now)
    timers[.settings] = now + Limits.settingsTimeout
    timers[.idle] = now + rules.idleTimeout
    timers[.keepalive] = now + rules.keepaliveInterval
    if let age = rules.maximumAge { timers[.age] = now + age }
  }

  // MARK: What the peer does

  /// Bytes came.
  mutating func read(at now: NIODeadline) { lastRead = now }

  mutating func settingsWereAcknowledged() { timers[.settings] = nil }

  /// Source: gRPC A8, "server enforcement".
  mutating func received(ping payload: UInt64, isAnswer: Bool, openStreams: Int, at now: NIODeadline) -> Action? {
    if isAnswer { return payload == Self.keepalivePayload ? nil : drainWasHeard() }
    let interval = openStreams > 0 ? Limits.busyPingInterval : Limits.idlePingInterval
    if let lastPing, now - lastPing < interval { pingStrikes += 1 }
    lastPing = now
    return pingStrikes > Limits.pingStrikes ? .terminate(.tooManyPings) : nil
  }

  /// Something of an answer went out: pings are no longer the only traffic. Clients that measure their bandwidth ping
  /// while an answer streams in.
  mutating func answered() {
    pingStrikes = 0
    lastPing = nil
  }

  /// A message is complete: a library that sends its prefix apart from it may do so.
  mutating func receivedMessage() { smallData.earn() }

  /// A DATA frame of a few bytes came that completed no message.
  mutating func receivedSmallData(at now: NIODeadline) -> Action? {
    smallData.spend(now: now) ? nil : .terminate(.tooManySmallFrames)
  }

  /// Whether a header block is being received: it has a time by which it must be whole.
  mutating func receivesBlock(_ isReceiving: Bool, at now: NIODeadline) {
    guard isReceiving != isBlockTimed else { return }
    isBlockTimed = isReceiving
    timers[.headerBlock] = isReceiving ? now + Limits.headerBlockTimeout : nil
  }

  /// The peer is read on, whom we had left unread: what it sent meanwhile is about to come.
  mutating func readsOn(at now: NIODeadline) { lastReadOn = now }

  /// A frame has begun and not ended: it is looked at when it has had its time. True when `next` is another now.
  mutating func receivesFrame(at now: NIODeadline) -> Bool {
    guard timers[.frame] == nil else { return false }
    timers[.frame] = now + Limits.messageTimeout
    return true
  }

  /// The peer asks for more than it lets be answered: what it sends is left unread for a while.
  /// The longest of several pauses counts.
  mutating func pauses(for time: TimeAmount, at now: NIODeadline) {
    isPaused = true
    timers[.pause] = max(timers[.pause] ?? now, now + time)
  }

  // MARK: What the connection does

  /// The socket takes bytes again, or no longer does.
  mutating func isWritable(_ isWritable: Bool, at now: NIODeadline) {
    timers[.stalledWrite] = isWritable ? nil : now + rules.stalledWriteTimeout
  }

  /// Streams wait for windows of the peer's. Between two looks at them: all looks but the first take the peer's time.
  /// True when `next` is another now.
  mutating func hasBlockedStreams(at now: NIODeadline) -> Bool {
    guard timers[.blockedStreams] == nil else { return false }
    let interval = rules.stalledWriteTimeout.nanoseconds / Int64(HTTP2.Limits.looksAtBlocked - 1)
    timers[.blockedStreams] = now + .nanoseconds(interval)
    return true
  }

  /// Streams have gone, and what they used is kept for the next ones. True when `next` is another now.
  mutating func hasSpares(at now: @autoclosure () -> NIODeadline) -> Bool {
    // Asked after every write: the clock is read only once in a while.
    guard timers[.spares] == nil else { return false }
    timers[.spares] = now() + Limits.quietTime
    return true
  }

  /// The last bytes are on their way. False: they were before.
  mutating func isClosing(at now: NIODeadline) -> Bool {
    guard timers[.closing] == nil else { return false }
    timers[.closing] = now + Limits.closingTimeout
    return true
  }

  /// What has begun is to end, and nothing else to begin.
  mutating func beginDrain(at now: NIODeadline) -> Action? {
    guard drain == .none else { return nil }
    drain = .announced
    timers[.drainRoundTrip] = now + Limits.drainRoundTrip
    timers[.drainGrace] = now + rules.drainGrace
    return .announceShutdown(ping: Self.drainPayload)
  }

  private mutating func drainWasHeard() -> Action? {
    guard drain == .announced else { return nil }
    drain = .fixed
    timers[.drainRoundTrip] = nil
    return .shutDown
  }

  // MARK: Time

  /// When something happens if nothing else does.
  var next: NIODeadline? { timers.earliest }

  /// What has come; it is unset, and each goes to `timeHasCome`.
  mutating func takeDue(_ now: NIODeadline) -> [ConnectionTimers.Event] { timers.takeDue(now) }

  mutating func timeHasCome(
    _ event: ConnectionTimers.Event, _ situation: Situation, at now: NIODeadline
  ) -> Action? {
    switch event {
    case .settings where situation.isBehind: timers[.settings] = now + Limits.settingsTimeout
    case .settings: return .terminate(.settingsTimeout)
    case .headerBlock where situation.isBehind: timers[.headerBlock] = now + Limits.headerBlockTimeout
    // The peer did not finish its header block, so the connection cannot go on either.
    case .headerBlock: return .terminate(.headerTimeout)
    case .frame: return frame(situation, at: now)
    case .idle: return idle(situation, at: now)
    case .keepalive: return keepalive(situation, at: now)
    case .keepaliveAnswer where situation.isBehind: timers[.keepaliveAnswer] = now + rules.keepaliveTimeout
    case .keepaliveAnswer:
      guard lastRead > lastAsked else { return .close }
      timers[.keepalive] = lastRead + rules.keepaliveInterval
    case .blockedStreams: return .lookAtBlockedStreams
    case .spares:
      let end = situation.lastStream + Limits.quietTime
      guard end > now else { return .freeSpares }
      timers[.spares] = end
    case .pause:
      isPaused = false
      return .readOn
    case .age: return beginDrain(at: now)
    case .drainRoundTrip: return drainWasHeard()
    case .drainGrace, .stalledWrite, .closing: return .close
    }
    return nil
  }

  /// A frame may take as long as the message that it is of, once its peer may send it. The one that is coming now may be another than the one that
  /// was first seen.
  private mutating func frame(_ situation: Situation, at now: NIODeadline) -> Action? {
    guard let began = situation.frameBegan else { return nil }
    let end = (situation.isBehind || situation.isUnread ? now : max(began, lastReadOn)) + Limits.messageTimeout
    guard end > now else { return .terminate(.frameTimeout) }
    timers[.frame] = end
    return nil
  }

  private mutating func idle(_ situation: Situation, at now: NIODeadline) -> Action? {
    let end = situation.lastStream + rules.idleTimeout
    if situation.openStreams > 0 {
      timers[.idle] = now + rules.idleTimeout
    } else if end > now {
      timers[.idle] = end
    } else {
      return .shutDown
    }
    return nil
  }

  private mutating func keepalive(_ situation: Situation, at now: NIODeadline) -> Action? {
    let end = lastRead + rules.keepaliveInterval
    if situation.openStreams == 0 {
      // Idle: it has its own end.
      timers[.keepalive] = now + rules.keepaliveInterval
    } else if end > now {
      timers[.keepalive] = end
    } else {
      lastAsked = now
      timers[.keepaliveAnswer] = now + rules.keepaliveTimeout
      return .ping(Self.keepalivePayload)
    }
    return nil
  }
}

extension ConnectionLifecycle.Rules {
  /// The rules of one connection: its age is spread by a tenth each way, so that clients that came together do not come
  /// back together.
  init(_ configuration: RPCServer.Configuration) {
    let maximumAge = configuration.maximumAge.map { age in
      age + .nanoseconds(age.nanoseconds / 1000 * Int64.random(in: -100...100))
    }
    self.init(
      idleTimeout: configuration.idleTimeout,
      keepaliveInterval: configuration.keepalive.interval,
      keepaliveTimeout: configuration.keepalive.timeout,
      maximumAge: maximumAge,
      drainGrace: configuration.drainGrace,
      stalledWriteTimeout: configuration.stalledWriteTimeout
    )
  }
}
