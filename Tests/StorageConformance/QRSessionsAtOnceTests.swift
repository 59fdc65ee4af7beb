import LatchkeyModel
import Storage
import TestSupport
import Testing

/// What instances, and calls within one, do to codes at the same moment (C3).
@Suite("C3: what forty do to QR sessions at once is as one after the other would leave it")
struct QRSessionsAtOnceTests {
  private let start = Timestamp(secondsSinceEpoch: 1_790_000_000)

  private func digest(_ number: UInt8) throws -> Digest256 {
    try #require(Digest256([UInt8](repeating: number, count: 32)))
  }

  private func session(_ number: UInt8) throws -> QRSession {
    QRSession(
      id: QRSessionID(instance: 3, from: RandomSource { [UInt8](repeating: number, count: $0) }),
      keys: QRSessionKeys(
        pollSecret: try digest(number), reference: try digest(number + 80), userCode: try digest(number + 160)),
      request: QRSessionRequest(
        purpose: .login, clientID: try #require(ClientID("latchkey-demo")), scope: .screen,
        challenge: PKCEChallenge(digest: try digest(9)),
        initiator: QRInitiator(label: nil, platform: nil, app: nil, address: "192.0.2.1")),
      issued: start, lifetime: .seconds(120))
  }

  private func cancelled(_ session: QRSession) -> QRSession {
    var session = session
    _ = session.cancel(at: start)
    return session
  }

  private func expired(_ session: QRSession) -> QRSession {
    var session = session
    _ = session.expire(at: start + .seconds(500))
    return session
  }

  private func shared(_ engine: Engine) async throws -> any SharedQRSessionStore {
    try #require(try await engine.openQRSessions(in: try TemporaryFolder()) as? any SharedQRSessionStore)
  }

  private func forty<Outcome: Sendable>(
    _ ask: @escaping @Sendable (UInt8) async throws -> Outcome
  ) async throws -> [Outcome] {
    try await withThrowingTaskGroup(of: Outcome.self) { group in
      for number in 0..<40 as Range<UInt8> { group.addTask { try await ask(number) } }
      return try await group.reduce(into: []) { $0.append($1) }
    }
  }

  @Test("C3: of forty who go on from what is stored none is overwritten", arguments: Engine.allCases)
  func exchanges(_ engine: Engine) async throws {
    let store = try await engine.openQRSessions(in: try TemporaryFolder())
    let first = try session(1)
    try await store.insert(first)
    let scanner = QRConfirmer(
      subject: try #require(SubjectID(bytes: [UInt8](repeating: 7, count: 16), in: .first)),
      sessionID: try #require(SessionID(bytes: [UInt8](repeating: 8, count: 16), in: .first)), isGuest: false,
      authenticated: start)
    // Each scans the code, and again until nobody was faster.
    let versions = try await forty { number -> Int64 in
      while true {
        let before = try #require(try await store.session(first.id))
        var after = before
        let outcome = after.scan(by: scanner, ticket: try digest(number), at: start)
        #expect(outcome == .claimed)
        if try await store.exchange(before, for: after, at: start) { return after.version }
      }
    }
    let last = try await store.session(first.id)
    #expect(versions.sorted() == Array(2...41))
    #expect(last?.version == 41)
  }

  @Test("C3: a code is forgotten once, as it is then, and free from then on", arguments: Engine.allCases)
  func removals(_ engine: Engine) async throws {
    let store = try await engine.openQRSessions(in: try TemporaryFolder())
    let sessions = try (0..<40 as Range<UInt8>).map { try session($0) }
    for session in sessions { try await store.insert(session) }
    let over = start + .seconds(1000)
    let outcomes = try await forty { number -> (exchanged: QRSessionID?, removed: Int) in
      let own = sessions[Int(number)]
      if number % 4 > 0 {
        let isStored = try await store.exchange(own, for: cancelled(own), at: start)
        return (isStored ? own.id : nil, 0)
      }
      return (nil, try await store.removeSessions(redeemedBefore: over, othersBefore: over, limit: 2))
    }
    let removed = outcomes.reduce(0) { $0 + $1.removed }
    let exchanged = Set(outcomes.compactMap { $0.exchanged })
    let left = try await store.sessions(expiringAfter: start, following: nil, limit: 99)
    #expect(removed <= 20 && removed + left.count == 40)
    for session in left {
      let own = try #require(sessions.first { $0.id == session.id })
      #expect(session == (exchanged.contains(own.id) ? cancelled(own) : own))
    }
    let ids = Set(left.map(\.id))
    for session in sessions where !ids.contains(session.id) { try await store.insert(session) }
    var again = 0
    while true {
      let more = try await store.removeSessions(redeemedBefore: over, othersBefore: over, limit: 7)
      if more == 0 { break }
      again += more
    }
    #expect(again == 40)
  }

  @Test(
    "C3: one hands a session over, however many have their turn and give it up, or it is over",
    arguments: SharedQRSessionStoreTests.engines)
  func redemptions(_ engine: Engine) async throws {
    let store = try await shared(engine)
    for round in 0..<4 as Range<UInt8> {
      let before = try session(round)
      let (after, over) = (cancelled(before), expired(before))
      try await store.insert(before)
      let isEnded = round % 2 == 1
      let outcomes = try await forty { number -> (turn: Int64, outcome: QRRedemption.Outcome?)? in
        if isEnded && number == 20 {
          _ = try await store.exchange(before, for: over, at: start)
          return nil
        }
        let holder = [UInt8](repeating: number, count: 16)
        while true {
          if try await store.redemption(of: before.id)?.answer != nil { return nil }
          let taken = try await store.takeRedemption(of: before.id, by: holder, for: .seconds(600))
          guard let turn = taken else {
            try await Task.sleep(for: .milliseconds(1))
            continue
          }
          var outcome: QRRedemption.Outcome?
          if number % 4 == 0 {
            let redemption = QRRedemption(holder: holder, until: start, answer: holder)
            outcome = try await store.redeem(before, for: after, handingOver: redemption, at: start)
          }
          if outcome != .done { try await store.giveUpRedemption(of: before.id, by: holder) }
          return (turn, outcome)
        }
      }.compactMap { $0 }
      let stored = try await store.session(before.id)
      let answer = try await store.redemption(of: before.id)?.answer
      let done = outcomes.filter { $0.outcome == .done }.count
      #expect(done == (stored == after ? 1 : 0) && (stored == after || isEnded))
      #expect(stored == after || stored == over)
      #expect((answer != nil) == (done == 1))
      #expect(outcomes.allSatisfy { $0.outcome != .superseded })
      #expect(Set(outcomes.map { $0.turn }).count == outcomes.count)
    }
  }

  @Test(
    "C3: changes and redemptions are forgotten once, whoever forgets them",
    arguments: SharedQRSessionStoreTests.engines)
  func forgetting(_ engine: Engine) async throws {
    let store = try await shared(engine)
    for number in 0..<40 as Range<UInt8> {
      let session = try session(number)
      try await store.insert(session)
      let isStored = try await store.exchange(session, for: cancelled(session), at: start)
      let holder = [UInt8](repeating: number, count: 16)
      let turn = try await store.takeRedemption(of: session.id, by: holder, for: .zero)
      #expect(isStored && turn != nil)
    }
    let later = SystemClock().now() + .seconds(60)
    @Sendable func forget(_ isChange: Bool) async throws -> Int {
      if isChange { return try await store.forgetChanges(olderThan: .seconds(-60), limit: 3) }
      return try await store.forgetRedemptions(endedBefore: later, limit: 3)
    }
    let forgotten = try await forty { number -> (isChange: Bool, count: Int) in
      (number % 2 == 0, try await forget(number % 2 == 0))
    }
    for isChange in [true, false] {
      var count = forgotten.filter { $0.isChange == isChange }.reduce(0) { $0 + $1.count }
      while true {
        let more = try await forget(isChange)
        if more == 0 { break }
        count += more
      }
      #expect(count == 40)
    }
  }

  @Test("C3: guesses that are made and given back at once are as many as there are", arguments: [Engine.postgresql])
  func guesses(_ engine: Engine) async throws {
    let counts = try #require(try await engine.openQRSessions(in: try TemporaryFolder()).guesses)
    @Sendable func spend() async throws -> Bool {
      try await counts.spend("name", of: 10, per: .seconds(600), at: start) == nil
    }
    let first = try await forty { _ in try await spend() }
    #expect(first.filter { $0 }.count == 10)
    let second = try await forty { number -> Bool in
      if number % 4 > 0 { return try await spend() }
      try await counts.refund("name", of: 10, per: .seconds(600), at: start)
      return false
    }
    let third = try await forty { _ in try await spend() }
    #expect((second + third).filter { $0 }.count == 10)
  }
}
