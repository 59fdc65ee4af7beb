import LatchkeyModel
import Synchronization
import TestSupport
import Testing

@testable import QRSessionService

@Suite struct PollTableTests {
  private let start = Timestamp(secondsSinceEpoch: 1_790_000_000)

  private func digest(_ number: UInt64) throws -> Digest256 {
    // Spread like a hash, so that shards and homes are all used.
    var random = Spread(state: number)
    return try #require(Digest256((0..<4).flatMap { _ in random.bytes() }))
  }

  private struct Spread {
    var state: UInt64

    mutating func bytes() -> [UInt8] {
      state = (state &+ 0x9E37_79B9_7F4A_7C15) &* 0xBF58_476D_1CE4_E5B9
      state ^= state >> 29
      return (0..<8).map { UInt8(truncatingIfNeeded: state >> UInt64($0 * 8)) }
    }
  }

  private func session(
    _ number: UInt64,
    phase: QRSession.Phase = .pending,
    version: Int64 = 1,
    lifetime: Duration = .seconds(120),
    issued: Timestamp? = nil
  ) throws -> QRSession {
    let issued = issued ?? start
    return QRSession(
      restoring: try #require(QRSessionID(bytes: try digest(number).bytes.prefix(16))),
      keys: QRSessionKeys(pollSecret: try digest(number), reference: try digest(number), userCode: try digest(number)),
      request: QRSessionRequest(
        purpose: .login,
        clientID: try #require(ClientID("c")),
        scope: .empty,
        challenge: PKCEChallenge(digest: try digest(0)),
        initiator: QRInitiator(label: nil, platform: nil, app: nil, address: "")
      ),
      issued: issued,
      expires: issued + lifetime,
      version: version,
      phase: phase
    )
  }

  private func claim() throws -> QRSession.Claim {
    QRSession.Claim(
      subject: try #require(SubjectID(bytes: [UInt8](repeating: 1, count: 16), in: .first)),
      sessionID: try #require(SessionID(bytes: [UInt8](repeating: 2, count: 16), in: .first)),
      ticket: try digest(5),
      ticketExpires: start + .seconds(60),
      mask: DisplayText("a•••@example.org")
    )
  }

  private func plainPoll(_ table: PollTable, _ number: UInt64, at time: Timestamp) throws -> PollDecision {
    table.poll(try digest(number), lastVersion: 0, waits: false, base: .seconds(5), at: time)
  }

  @Test("Sessions are found among many, and only those that are there", arguments: [1, 100, 20_000])
  func manySessions(count: UInt64) throws {
    let table = PollTable(now: start)
    for number in 0..<count { table.insert(try session(number)) }
    #expect(table.count == Int(count))
    for number in 0..<count {
      #expect(table.view(try digest(number), at: start)?.id == (try session(number)).id)
      #expect(table.view(try digest(number + count), at: start) == nil)
    }
    // Adding again changes nothing.
    for number in 0..<count { table.insert(try session(number, version: 9)) }
    #expect(table.count == Int(count))
    #expect(table.view(try digest(0), at: start)?.version == 1)
  }

  @Test("A change is seen by the next poll, and an older one never replaces a newer")
  func publish() throws {
    let table = PollTable(now: start)
    table.insert(try session(1))
    table.publish(try session(1, phase: .scanned(claim()), version: 2))
    #expect(table.view(try digest(1), at: start)?.state == .scanned)
    #expect(table.view(try digest(1), at: start)?.mask?.description == "a•••@example.org")
    table.publish(try session(1, phase: .cancelled, version: 4))
    table.publish(try session(1, phase: .scanned(claim()), version: 3))
    let view = table.view(try digest(1), at: start)
    #expect(view?.state == .cancelled)
    #expect(view?.version == 4)
    // A session that this table never had is nobody's to wake.
    table.publish(try session(2, version: 2))
    #expect(table.count == 1)
  }

  @Test("S4: time ends a session without a write, one version later, and forgets it after its poller could see")
  func expiry() throws {
    let table = PollTable(now: start)
    table.insert(try session(1))
    table.insert(try session(2, phase: .cancelled, version: 2))
    let end = start + .seconds(120)
    #expect(table.view(try digest(1), at: end - .milliseconds(1))?.state == .pending)
    #expect(table.view(try digest(1), at: end)?.state == .expired)
    #expect(table.view(try digest(1), at: end)?.version == 2)
    #expect(table.sweep(at: end).isEmpty)
    #expect(table.sweep(at: end + .seconds(1)) == [(try session(1)).id])
    #expect(table.sweep(at: end + .seconds(1)).isEmpty)
    #expect(table.count == 2)
    #expect(table.sweep(at: end + Limits.pollRetention).isEmpty)
    #expect(table.count == 2)
    #expect(table.sweep(at: end + Limits.pollRetention + .seconds(1)).isEmpty)
    #expect(table.count == 0)
    #expect(table.view(try digest(1), at: end) == nil)
  }

  @Test("Sessions come and go for hours without a trace of those that went")
  func churn() throws {
    let table = PollTable(now: start)
    var next: UInt64 = 0
    for second in stride(from: Int64(0), to: 4000, by: 7) {
      let now = start + .seconds(second)
      for _ in 0..<20 {
        table.insert(try session(next, lifetime: .seconds(Int64(next % 600) + 1), issued: now))
        next += 1
      }
      _ = table.sweep(at: now)
      // Nothing lives longer than its time and its retention.
      #expect(table.count <= 20 * (660 / 7 + 2))
    }
    for number in 0..<next {
      let issuedAt = Int64(number / 20) * 7
      let isThere = table.view(try digest(number), at: start + .seconds(3997)) != nil
      let goneAt = issuedAt + Int64(number % 600) + 1 + 60
      if goneAt > 4000 { #expect(isThere) }
      if goneAt < 3990 { #expect(!isThere) }
    }
    _ = table.sweep(at: start + .seconds(5000))
    #expect(table.count == 0)
  }

  @Test("A clock that jumps, either way, loses no session and keeps none for ever")
  func clockJumps() throws {
    let table = PollTable(now: start)
    table.insert(try session(1))
    // Back: what is issued then is due before the wheel's place.
    let early = start - .seconds(3600)
    _ = table.sweep(at: early)
    table.insert(try session(2, issued: early))
    #expect(table.view(try digest(2), at: early)?.state == .pending)
    _ = table.sweep(at: early + .seconds(121))
    #expect(table.view(try digest(2), at: early + .seconds(121))?.state == .expired)
    #expect(table.view(try digest(1), at: early + .seconds(121)) == nil)
    // Far ahead, past several turns of the wheel.
    _ = table.sweep(at: start + .seconds(100_000))
    #expect(table.count == 0)
  }

  @Test("S4: a clock that is set back by more than a minute ends codes for their pollers as it does for scanners")
  func clockSetBack() throws {
    let table = PollTable(now: start)
    let claimed = try session(2, phase: .scanned(claim()), version: 2)
    let grant = QRSession.Grant(scope: .empty, confirmed: start, proven: start)
    let confirmed = try session(3, phase: .confirmed(claim(), grant), version: 3)
    let sessions = [try session(1), claimed, confirmed, try session(4, phase: .denied(claim()), version: 3)]
    for session in sessions { table.insert(session) }
    for back in [Duration.zero, .seconds(59), .seconds(60), .milliseconds(60_001), .seconds(61), .seconds(3600)] {
      for session in sessions {
        let state = table.view(session.keys.pollSecret, at: start - back)?.state
        #expect(state == session.state(at: start - back), "\(session.phase.state), back by \(back)")
      }
    }
    let early = start - .seconds(3600)
    let poll = table.poll(try digest(1), lastVersion: 0, waits: false, base: .zero, at: early)
    guard case .answer(let view, _) = poll else { throw Unexpected(what: "\(poll)") }
    #expect(view.state == .expired && view.version == 2)
    // They are told once, kept for their pollers for a while, and forgotten by the clock as it is now.
    #expect(Set(table.sweep(at: early)).isEmpty)
    #expect(Set(table.sweep(at: early + .seconds(1))) == [sessions[0].id, claimed.id])
    #expect(table.sweep(at: early + .seconds(2)).isEmpty)
    #expect(table.view(try digest(1), at: early + .seconds(30))?.state == .expired)
    // Set right again, nothing that was told is taken back.
    #expect(table.view(try digest(1), at: start)?.state == .expired)
    #expect(table.sweep(at: early + Limits.pollRetention + .seconds(2)).isEmpty)
    #expect(table.count == 1)
    // What a person agreed to is not lost.
    #expect(table.view(try digest(3), at: early + .seconds(100))?.state == .confirmed)
  }

  @Test("S4: who waits for a code is told within a second that the clock was set back", .timeLimit(.minutes(1)))
  func waiterHearsOfClock() async throws {
    let table = PollTable(now: start)
    table.insert(try session(1))
    let secret = try digest(1)
    async let woken = table.change(of: secret, after: 1, until: .now + .seconds(3600), at: start)
    while table.waiterCount == 0 { await Task.yield() }
    _ = table.sweep(at: start - .seconds(3600))
    _ = table.sweep(at: start - .seconds(3599))
    #expect(await woken == .changed)
  }

  private struct Unexpected: Error {
    let what: String
  }

  @Test("A confirmation that gives more time moves the session's end")
  func movedExpiry() throws {
    let table = PollTable(now: start)
    for number in 0..<10 as Range<UInt64> { table.insert(try session(number)) }
    let grant = QRSession.Grant(scope: .empty, confirmed: start + .seconds(119), proven: start)
    table.publish(
      try session(5, phase: .confirmed(try claim(), grant), version: 3, lifetime: .seconds(179))
    )
    _ = table.sweep(at: start + .seconds(150))
    #expect(table.view(try digest(5), at: start + .seconds(150))?.state == .confirmed)
    #expect(table.view(try digest(4), at: start + .seconds(150))?.state == .expired)
    _ = table.sweep(at: start + .seconds(182))
    #expect(table.count == 1)
    _ = table.sweep(at: start + .seconds(240))
    #expect(table.count == 0)
  }

  @Test("S14: a poll that waits for news is answered with news at once and does not pay for it")
  func newsIsFree() throws {
    let table = PollTable(now: start)
    table.insert(try session(1))
    let poll = { (version: Int64, time: Timestamp) in
      table.poll(try digest(1), lastVersion: version, waits: true, base: .seconds(2), at: time)
    }
    guard case .answer(let first, _) = try poll(0, start) else {
      Issue.record("no answer")
      return
    }
    #expect(first.version == 1)
    guard case .wait = try poll(1, start) else {
      Issue.record("not waiting")
      return
    }
    // The same news a second time is a poll like any other.
    guard case .slowDown = try poll(0, start + .seconds(1)) else {
      Issue.record("not throttled")
      return
    }
  }

  @Test("A waiter that registers after the change does not wait: no wake-up is lost", .timeLimit(.minutes(1)))
  func noLostWakeUp() async throws {
    // The change comes at any point around the registration; a lost one would hang until the far deadline.
    for round in 0..<2000 as Range<UInt64> {
      let table = PollTable(now: start)
      table.insert(try session(round))
      let secret = try digest(round)
      let changed = try session(round, phase: .scanned(claim()), version: 2)
      async let wait = table.change(of: secret, after: 1, until: .now + .seconds(50), at: start)
      table.publish(changed)
      #expect(await wait == .changed)
      #expect(table.view(secret, at: start)?.version == 2)
      #expect(table.waiterCount == 0)
    }
  }

  @Test("A waiter ends with its call", .timeLimit(.minutes(1)))
  func cancellation() async throws {
    let table = PollTable(now: start)
    table.insert(try session(1))
    let secret = try digest(1)
    for round in 0..<200 {
      let task = Task { await table.change(of: secret, after: 1, until: .now + .seconds(50), at: self.start) }
      if round % 2 == 0 { await Task.yield() }
      task.cancel()
      #expect(await task.value == .cancelled)
    }
    #expect(table.waiterCount == 0)
  }

  @Test("Waiters of one session are bounded: the oldest is answered when one more comes", .timeLimit(.minutes(1)))
  func boundedWaiters() async throws {
    let table = PollTable(now: start)
    table.insert(try session(1))
    let secret = try digest(1)
    let returned = Returned()
    let start = start
    await withTaskGroup(of: Void.self) { group in
      for _ in 0..<(Limits.waitersPerSession + 6) {
        group.addTask {
          let wake = await table.change(of: secret, after: 1, until: .now + .seconds(50), at: start)
          #expect(wake == .displaced || wake == .stopping)
          returned.count.withLock { $0 += 1 }
        }
      }
      while returned.count.withLock({ $0 }) < 6 { await Task.yield() }
      #expect(table.waiterCount == Limits.waitersPerSession)
      table.stopWaiting()
      await group.waitForAll()
    }
    // Nobody waits from then on.
    #expect(await table.change(of: secret, after: 1, until: .now + .seconds(50), at: start) == .stopping)
    #expect(table.waiterCount == 0)
  }

  @Test("A waiter is answered when its time is over, not before, and when its session's is", .timeLimit(.minutes(1)))
  func timeouts() async throws {
    let table = PollTable(now: start)
    table.insert(try session(1))
    let secret = try digest(1)
    let due = ContinuousClock.now + .seconds(50)
    let first = Task { await table.change(of: secret, after: 1, until: due, at: self.start) }
    while table.waiterCount == 0 { await Task.yield() }
    table.wakeTimedOut(at: due - .milliseconds(1))
    #expect(table.waiterCount == 1)
    table.wakeTimedOut(at: due)
    #expect(await first.value == .timedOut)
    #expect(table.waiterCount == 0)

    let second = Task { await table.change(of: secret, after: 1, until: due, at: self.start) }
    while table.waiterCount == 0 { await Task.yield() }
    _ = table.sweep(at: start + .seconds(121))
    #expect(await second.value == .changed)
    #expect(table.view(secret, at: start + .seconds(121))?.state == .expired)
  }

  /// Random operations against a dictionary that does the same the slow way. The seed is in the failure.
  @Test("The table and a plain dictionary agree about every session", arguments: 0..<20 as Range<UInt64>)
  func model(seed: UInt64) throws {
    var random = SeededRandom(seed: seed)
    let table = PollTable(now: start)
    var model: [UInt64: QRSession] = [:]
    var now = start
    for _ in 0..<3000 {
      let number = random.next() % 300
      switch random.next() % 4 {
      case 0:
        let added = try session(number, lifetime: .seconds(Int64(random.next() % 600) + 1), issued: now)
        if table.view(added.keys.pollSecret, at: now) == nil { model[number] = added }
        table.insert(added)
      case 1:
        guard let known = model[number], known.state(at: now) == .pending else { continue }
        var changed = known
        _ = changed.cancel(at: now)
        table.publish(changed)
        model[number] = changed
      case 2:
        now = now + .milliseconds(Int64(random.next() % 4000))
        _ = table.sweep(at: now)
        // The wheel looks at a second once it is over.
        model = model.filter {
          ($0.value.expires + Limits.pollRetention).secondsSinceEpoch >= now.secondsSinceEpoch
        }
      default:
        let view = table.view(try digest(number), at: now)
        #expect(view?.id == model[number]?.id, "seed \(seed)")
        #expect(view?.state == model[number]?.state(at: now), "seed \(seed)")
      }
    }
    #expect(table.count == model.count, "seed \(seed)")
  }

  private final class Returned: Sendable {
    let count = Mutex(0)
  }
}
