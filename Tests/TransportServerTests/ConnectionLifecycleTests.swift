import HTTP2
import NIOCore
import Testing

@testable import TransportServer

@Suite("The lifecycle of a server's connection, without one")
struct ConnectionLifecycleTests {
  private typealias Action = ConnectionLifecycle.Action
  private typealias Event = ConnectionTimers.Event

  private static let rules = ConnectionLifecycle.Rules(
    idleTimeout: .minutes(5),
    keepaliveInterval: .seconds(60),
    keepaliveTimeout: .seconds(20),
    maximumAge: nil,
    drainGrace: .seconds(30),
    stalledWriteTimeout: .seconds(30)
  )
  private static let start = NIODeadline.uptimeNanoseconds(1_000_000_000_000)

  private static func at(_ seconds: Int64) -> NIODeadline { start + .seconds(seconds) }

  private static func situation(
    openStreams: Int = 0, lastStream: NIODeadline = start, isBehind: Bool = false
  ) -> ConnectionLifecycle.Situation {
    ConnectionLifecycle.Situation(openStreams: openStreams, lastStream: lastStream, isBehind: isBehind)
  }

  /// The states that an event may find a connection in.
  private enum State: CaseIterable {
    case fresh, announced, fixed, asked, paused, closing

    var lifecycle: ConnectionLifecycle {
      var lifecycle = ConnectionLifecycle(rules, at: start)
      switch self {
      case .fresh: break
      case .announced: _ = lifecycle.beginDrain(at: start)
      case .fixed:
        _ = lifecycle.beginDrain(at: start)
        _ = lifecycle.received(ping: ConnectionLifecycle.drainPayload, isAnswer: true, openStreams: 1, at: start)
      case .asked: _ = lifecycle.timeHasCome(.keepalive, situation(openStreams: 1), at: at(60))
      case .paused: lifecycle.pauses(for: Limits.overrunPause, at: start)
      case .closing: _ = lifecycle.isClosing(at: start)
      }
      return lifecycle
    }
  }

  /// What each time does in each state: with an open stream and a peer that we do not hold up.
  private static func expected(_ event: Event, in state: State) -> Action? {
    switch (event, state) {
    case (.settings, _): .terminate(.settingsTimeout)
    case (.headerBlock, _): .terminate(.headerTimeout)
    // None has begun.
    case (.frame, _): nil
    // A stream is open.
    case (.idle, _): nil
    // The peer was silent all the time.
    case (.keepalive, _): .ping(ConnectionLifecycle.keepalivePayload)
    case (.keepaliveAnswer, _): .close
    case (.blockedStreams, _): .lookAtBlockedStreams
    case (.spares, _): .freeSpares
    case (.pause, _): .readOn
    case (.age, .announced), (.age, .fixed): nil
    case (.age, _): .announceShutdown(ping: ConnectionLifecycle.drainPayload)
    case (.drainRoundTrip, .announced): .shutDown
    case (.drainRoundTrip, _): nil
    case (.drainGrace, _), (.stalledWrite, _), (.closing, _): .close
    }
  }

  @Test("Every time in every state does what the table says, and a second time changes no drain")
  func times() {
    for state in State.allCases {
      for event in Event.allCases {
        var lifecycle = state.lifecycle
        let action = lifecycle.timeHasCome(event, Self.situation(openStreams: 1), at: Self.at(600))
        #expect(action == Self.expected(event, in: state), "\(event) in \(state)")
        guard event == .age || event == .drainRoundTrip else { continue }
        #expect(lifecycle.timeHasCome(event, Self.situation(openStreams: 1), at: Self.at(601)) == nil)
      }
    }
  }

  @Test("What we hold up ourselves is not the peer's fault: it has its time again")
  func behind() {
    for (event, again) in [
      (Event.settings, Limits.settingsTimeout), (.headerBlock, Limits.headerBlockTimeout),
      (.keepaliveAnswer, Self.rules.keepaliveTimeout),
    ] {
      for state in State.allCases {
        var lifecycle = state.lifecycle
        lifecycle.settingsWereAcknowledged()
        let now = Self.at(600)
        #expect(lifecycle.timeHasCome(event, Self.situation(openStreams: 1, isBehind: true), at: now) == nil)
        #expect(lifecycle.takeDue(now + again - .nanoseconds(1)).contains(event) == false, "\(event) in \(state)")
        #expect(lifecycle.takeDue(now + again).contains(event), "\(event) in \(state)")
      }
    }
  }

  @Test("A frame has its time from its own beginning on, and once more where it was we who left it unread")
  func frame() {
    let time = Limits.messageTimeout
    func look(
      _ lifecycle: inout ConnectionLifecycle, began: NIODeadline?, isUnread: Bool = false, at now: NIODeadline
    ) -> Action? {
      let situation = ConnectionLifecycle.Situation(
        openStreams: 1, lastStream: Self.start, isBehind: false, isUnread: isUnread, frameBegan: began)
      return lifecycle.timeHasCome(.frame, situation, at: now)
    }
    var lifecycle = ConnectionLifecycle(Self.rules, at: Self.start)
    let (isNews, isMore) = (lifecycle.receivesFrame(at: Self.start), lifecycle.receivesFrame(at: Self.at(1)))
    #expect(isNews && !isMore)
    let first = Self.start + time
    #expect(!lifecycle.takeDue(first - .nanoseconds(1)).contains(.frame))
    #expect(lifecycle.takeDue(first).contains(.frame))
    // That one has ended, and the next one has just begun.
    #expect(look(&lifecycle, began: first - .seconds(1), at: first) == nil)
    let second = first - .seconds(1) + time
    #expect(!lifecycle.takeDue(second - .nanoseconds(1)).contains(.frame))
    #expect(lifecycle.takeDue(second).contains(.frame))
    #expect(look(&lifecycle, began: first - .seconds(1), isUnread: true, at: second) == nil)
    #expect(!lifecycle.takeDue(second + time - .nanoseconds(1)).contains(.frame))
    #expect(lifecycle.takeDue(second + time).contains(.frame))
    var (other, readOn) = (lifecycle, lifecycle)
    readOn.readsOn(at: second + time - .nanoseconds(1))
    #expect(look(&readOn, began: first - .seconds(1), at: second + time) == nil)
    let fault = Action.terminate(.frameTimeout)
    #expect(look(&other, began: first - .seconds(1), at: second + time) == fault)
    // Nothing is coming: the next frame is watched for again.
    #expect(look(&lifecycle, began: nil, at: second + time) == nil)
    let isNewsAgain = lifecycle.receivesFrame(at: second + time)
    #expect(isNewsAgain)
  }

  @Test("Without a stream the connection ends when it was idle for its time, counted from the last stream")
  func idle() {
    var lifecycle = ConnectionLifecycle(Self.rules, at: Self.start)
    let late = Self.at(200)
    #expect(lifecycle.takeDue(Self.at(300)).contains(.idle))
    #expect(lifecycle.timeHasCome(.idle, Self.situation(lastStream: late), at: Self.at(300)) == nil)
    #expect(!lifecycle.takeDue(Self.at(499)).contains(.idle))
    #expect(lifecycle.takeDue(Self.at(500)).contains(.idle))
    #expect(lifecycle.timeHasCome(.idle, Self.situation(lastStream: late), at: Self.at(500)) == .shutDown)
  }

  @Test("A sign of life puts the question off, and one after the question answers it")
  func keepalive() {
    var lifecycle = ConnectionLifecycle(Self.rules, at: Self.start)
    lifecycle.read(at: Self.at(30))
    #expect(lifecycle.timeHasCome(.keepalive, Self.situation(openStreams: 1), at: Self.at(60)) == nil)
    let ping = Action.ping(ConnectionLifecycle.keepalivePayload)
    #expect(lifecycle.timeHasCome(.keepalive, Self.situation(openStreams: 1), at: Self.at(90)) == ping)
    lifecycle.read(at: Self.at(91))
    #expect(lifecycle.timeHasCome(.keepaliveAnswer, Self.situation(openStreams: 1), at: Self.at(110)) == nil)
    #expect(lifecycle.timeHasCome(.keepalive, Self.situation(openStreams: 1), at: Self.at(151)) == ping)
    #expect(lifecycle.timeHasCome(.keepaliveAnswer, Self.situation(openStreams: 1), at: Self.at(171)) == .close)
    // Nobody asks a connection without a stream.
    #expect(lifecycle.timeHasCome(.keepalive, Self.situation(), at: Self.at(600)) == nil)
  }

  @Test("Pings may come so often with a stream, more rarely without, and an answer in between forgives them")
  func pings() {
    for (openStreams, interval) in [(0, Limits.idlePingInterval), (1, Limits.busyPingInterval)] {
      var now = Self.start
      var lifecycle = ConnectionLifecycle(Self.rules, at: now)
      func ping() -> Action? {
        lifecycle.received(ping: 7, isAnswer: false, openStreams: openStreams, at: now)
      }
      for _ in 0..<20 {
        #expect(ping() == nil)
        now = now + interval
      }
      #expect(ping() == nil)
      for _ in 0..<Limits.pingStrikes { #expect(ping() == nil) }
      #expect(ping() == .terminate(.tooManyPings))
      lifecycle.answered()
      for _ in 0...Limits.pingStrikes { #expect(ping() == nil) }
      #expect(ping() == .terminate(.tooManyPings))
    }
  }

  @Test("A drain begins once, is fixed by the answer to its PING alone, and ends with its grace")
  func drain() {
    var lifecycle = ConnectionLifecycle(Self.rules, at: Self.start)
    func answer(_ payload: UInt64) -> Action? {
      lifecycle.received(ping: payload, isAnswer: true, openStreams: 1, at: Self.start)
    }
    #expect(answer(ConnectionLifecycle.drainPayload) == nil && lifecycle.drain == .none)
    #expect(lifecycle.beginDrain(at: Self.start) == .announceShutdown(ping: ConnectionLifecycle.drainPayload))
    #expect(lifecycle.beginDrain(at: Self.start) == nil)
    #expect(answer(ConnectionLifecycle.keepalivePayload) == nil && lifecycle.drain == .announced)
    #expect(answer(ConnectionLifecycle.drainPayload) == .shutDown && lifecycle.drain == .fixed)
    #expect(answer(ConnectionLifecycle.drainPayload) == nil)
    let due = lifecycle.takeDue(Self.at(30))
    #expect(due.contains(.drainGrace) && !due.contains(.drainRoundTrip))
  }

  @Test("Frames of a few bytes have a budget that whole messages earn back")
  func smallData() {
    var lifecycle = ConnectionLifecycle(Self.rules, at: Self.start)
    for _ in 0..<Limits.smallDataFrames.burst { #expect(lifecycle.receivedSmallData(at: Self.start) == nil) }
    #expect(lifecycle.receivedSmallData(at: Self.start) == .terminate(.tooManySmallFrames))
    lifecycle.receivedMessage()
    #expect(lifecycle.receivedSmallData(at: Self.start) == nil)
    #expect(lifecycle.receivedSmallData(at: Self.start) == .terminate(.tooManySmallFrames))
  }

  @Test("A header block, a pause and a stalled write each have one time, which their end takes back")
  func oneTimeEach() {
    var lifecycle = ConnectionLifecycle(Self.rules, at: Self.start)
    lifecycle.receivesBlock(true, at: Self.start)
    lifecycle.receivesBlock(true, at: Self.at(4))
    lifecycle.isWritable(false, at: Self.start)
    lifecycle.pauses(for: Limits.overrunPause, at: Self.start)
    lifecycle.pauses(for: Limits.overrunPause, at: Self.start + .milliseconds(200))
    lifecycle.pauses(for: .milliseconds(50), at: Self.start + .milliseconds(200))
    #expect(lifecycle.isPaused && lifecycle.takeDue(Self.start + Limits.overrunPause) == [])
    #expect(lifecycle.takeDue(Self.start + .milliseconds(200) + Limits.overrunPause) == [.pause])
    #expect(lifecycle.timeHasCome(.pause, Self.situation(), at: Self.at(1)) == .readOn && !lifecycle.isPaused)
    #expect(lifecycle.takeDue(Self.start + Limits.headerBlockTimeout) == [.headerBlock])
    lifecycle.receivesBlock(false, at: Self.at(5))
    lifecycle.receivesBlock(true, at: Self.at(6))
    lifecycle.receivesBlock(false, at: Self.at(7))
    lifecycle.isWritable(true, at: Self.at(8))
    let due = lifecycle.takeDue(Self.at(1000))
    #expect(!due.contains(.headerBlock) && !due.contains(.stalledWrite))
  }

  @Test("Connections that came together do not grow old together")
  func age() {
    var configuration = RPCServer.Configuration(host: "127.0.0.1", port: 0)
    configuration.maximumAge = .minutes(30)
    let ages = (0..<50).compactMap { _ in ConnectionLifecycle.Rules(configuration).maximumAge }
    #expect(ages.allSatisfy { (.minutes(27) ... .minutes(33)).contains($0) } && Set(ages).count > 10)
    configuration.maximumAge = nil
    #expect(ConnectionLifecycle.Rules(configuration).maximumAge == nil)
  }
}
