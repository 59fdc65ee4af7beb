import LatchkeyModel
import Storage
import TestSupport
import Testing

@Suite("C20: QR sessions are the same in every engine")
struct QRSessionStoreTests {
  private let start = Timestamp(secondsSinceEpoch: 1_790_000_000)

  private func digest(_ number: UInt8) throws -> Digest256 {
    try #require(Digest256([UInt8](repeating: number, count: 32)))
  }

  private func session(_ number: UInt8, phase: QRSession.Phase = .pending, version: Int64 = 1) throws -> QRSession {
    let initiator = QRInitiator(
      label: DisplayText("Living room"),
      platform: nil,
      app: DisplayText("player"),
      address: "2001:db8::7",
      keyThumbprint: number % 2 == 0 ? "thumbprint" : nil,
      sessionID: number % 2 == 0 ? SessionID(bytes: [UInt8](repeating: 1, count: 16), in: .first) : nil
    )
    return QRSession(
      restoring: QRSessionID(instance: 3, from: RandomSource { [UInt8](repeating: number, count: $0) }),
      keys: QRSessionKeys(
        pollSecret: try digest(number),
        reference: try digest(number + 50),
        userCode: try digest(number + 100)
      ),
      request: QRSessionRequest(
        purpose: .login,
        clientID: try #require(ClientID("latchkey-demo")),
        scope: try #require(Scope("profile records")),
        challenge: PKCEChallenge(digest: try digest(9)),
        initiator: initiator,
        deviceKey: number % 2 == 0 ? [UInt8](repeating: 4, count: 64) : nil,
        action: number % 3 == 0 ? nil : try action(amount: number % 3 == 1)
      ),
      issued: start,
      expires: start + .seconds(120),
      version: version,
      phase: phase
    )
  }

  private func action(amount: Bool) throws -> QRAction {
    let money: QRAmount = try #require(QRAmount(decimal: "129.90", currency: "EUR"))
    return try #require(
      QRAction(text: "Pay Corner Shop", amount: amount ? money : nil, reference: amount ? "order-7" : "")
    )
  }

  private func phases() throws -> [QRSession.Phase] {
    let claim = QRSession.Claim(
      subject: try #require(SubjectID(bytes: [UInt8](repeating: 7, count: 16), in: .first)),
      sessionID: try #require(SessionID(bytes: [UInt8](repeating: 8, count: 16), in: .first)),
      ticket: try digest(11),
      ticketExpires: start + .seconds(60),
      requirements: QRRequirements(checkCode: true, reauthentication: true),
      heardBeacon: true,
      mask: DisplayText("a•••@example.org")
    )
    let grant = QRSession.Grant(scope: try #require(Scope("profile")), confirmed: start + .seconds(4), proven: start)
    let proof: QRConfirmProof = try #require(
      QRConfirmProof(
        key: [UInt8](repeating: 5, count: 64),
        ticket: try digest(12),
        signature: [UInt8](repeating: 6, count: 64)
      )
    )
    let signed = QRSession.Grant(scope: .empty, confirmed: start + .seconds(4), proven: start, proof: proof)
    return [
      .pending, .scanned(claim), .confirmed(claim, grant), .confirmed(claim, signed), .denied(claim), .expired,
      .cancelled,
      .consumed(claim, grant, at: start + .seconds(5)),
    ]
  }

  @Test(
    "C20: a session in any state comes back as it was, by each of its codes, also after a restart",
    arguments: Engine.allCases)
  func roundTrip(_ engine: Engine) async throws {
    let folder = try TemporaryFolder()
    let store = try await engine.openQRSessions(in: folder)
    for (index, phase) in try phases().enumerated() {
      try await store.insert(try session(UInt8(index), phase: phase, version: Int64(index) + 1))
    }
    let stores = engine.isDurable ? [store, try await engine.openQRSessions(in: folder)] : [store]
    for (index, phase) in try phases().enumerated() {
      let expected = try session(UInt8(index), phase: phase, version: Int64(index) + 1)
      for store in stores {
        #expect(try await store.session(expected.id) == expected)
        #expect(try await store.session(reference: expected.keys.reference) == expected)
        #expect(try await store.session(userCode: expected.keys.userCode) == expected)
        #expect(try await store.session(pollSecret: expected.keys.pollSecret) == expected)
      }
    }
    for store in stores {
      #expect(try await store.session(try session(99).id) == nil)
      #expect(try await store.session(reference: try digest(200)) == nil)
      #expect(try await store.session(userCode: try digest(200)) == nil)
      #expect(try await store.session(pollSecret: try digest(200)) == nil)
    }
  }

  @Test("S6, C20: of forty that insert a session with the same code at once, one succeeds", arguments: Engine.allCases)
  func oneInsertWins(_ engine: Engine) async throws {
    let store = try await engine.openQRSessions(in: try TemporaryFolder())
    let code = try digest(201)
    let sessions = try (0..<40 as Range<UInt8>).map { number in
      let own = try session(number)
      let keys = QRSessionKeys(
        pollSecret: own.keys.pollSecret, reference: own.keys.reference, userCode: code)
      return QRSession(id: own.id, keys: keys, request: own.request, issued: start, lifetime: .seconds(9))
    }
    let wins = await withTaskGroup(of: Bool.self) { group in
      for session in sessions {
        group.addTask { (try? await store.insert(session)) != nil }
      }
      return await group.reduce(0) { $0 + ($1 ? 1 : 0) }
    }
    #expect(wins == 1)
    #expect(try await store.sessions(expiringAfter: start, following: nil, limit: 99).count == 1)
    let again = try #require(try await store.session(userCode: code))
    await #expect(throws: StorageError.self) { try await store.insert(again) }
  }

  @Test("S6, C20: no code is given out twice while a session has it", arguments: Engine.allCases)
  func uniqueCodes(_ engine: Engine) async throws {
    let store = try await engine.openQRSessions(in: try TemporaryFolder())
    let first = try session(1)
    try await store.insert(first)
    let second = try session(2)
    for keys in [
      QRSessionKeys(pollSecret: first.keys.pollSecret, reference: try digest(201), userCode: try digest(202)),
      QRSessionKeys(pollSecret: try digest(201), reference: first.keys.reference, userCode: try digest(202)),
      QRSessionKeys(pollSecret: try digest(201), reference: try digest(202), userCode: first.keys.userCode),
    ] {
      let copy = QRSession(id: second.id, keys: keys, request: second.request, issued: start, lifetime: .seconds(9))
      let error = await #expect(throws: StorageError.self) { try await store.insert(copy) }
      #expect(error?.isUniqueViolation == true)
    }
  }

  @Test("S5, C20: of a hundred that exchange the same version, one succeeds", arguments: Engine.allCases)
  func oneExchangeWins(_ engine: Engine) async throws {
    let store = try await engine.openQRSessions(in: try TemporaryFolder())
    let before = try session(1)
    try await store.insert(before)
    let phase = try phases()[1]
    let after = try session(1, phase: phase, version: 2)
    let now = start
    let wins = try await withThrowingTaskGroup(of: Bool.self) { group in
      for _ in 0..<100 { group.addTask { try await store.exchange(before, for: after, at: now) } }
      return try await group.reduce(0) { $0 + ($1 ? 1 : 0) }
    }
    #expect(wins == 1)
    #expect(try await store.session(before.id) == after)
  }

  @Test("C20: an exchange needs the version, the state and, for a live state, the time", arguments: Engine.allCases)
  func exchangeConditions(_ engine: Engine) async throws {
    let store = try await engine.openQRSessions(in: try TemporaryFolder())
    let stored = try session(1, phase: try phases()[1], version: 5)
    try await store.insert(stored)
    let after = try session(1, phase: try phases()[2], version: 6)
    let older = try session(1, phase: stored.phase, version: 4)
    let elsewhere = try session(1, phase: .pending, version: 5)
    #expect(try await store.exchange(older, for: after, at: start) == false)
    #expect(try await store.exchange(elsewhere, for: after, at: start) == false)
    #expect(try await store.exchange(stored, for: after, at: start + .seconds(120)) == false)
    #expect(try await store.session(stored.id) == stored)
    #expect(try await store.exchange(stored, for: after, at: start + .milliseconds(119_999)) == true)
    #expect(try await store.session(stored.id) == after)
  }

  @Test("C20: pages list every session that is still in time, each once", arguments: Engine.allCases)
  func pages(_ engine: Engine) async throws {
    let store = try await engine.openQRSessions(in: try TemporaryFolder())
    for number in 0..<25 as Range<UInt8> { try await store.insert(try session(number)) }
    var found: [QRSessionID] = []
    while true {
      let page = try await store.sessions(expiringAfter: start, following: found.last, limit: 10)
      found += page.map(\.id)
      guard page.count == 10 else { break }
    }
    #expect(found.count == 25)
    #expect(Set(found).count == 25)
    #expect(try await store.sessions(expiringAfter: start + .seconds(120), following: nil, limit: 10).isEmpty)
  }

  @Test("C20: ended sessions are forgotten in batches, redeemed ones later than others", arguments: Engine.allCases)
  func removal(_ engine: Engine) async throws {
    let store = try await engine.openQRSessions(in: try TemporaryFolder())
    for (index, phase) in try phases().enumerated() { try await store.insert(try session(UInt8(index), phase: phase)) }
    let end = start + .seconds(120)
    let later = end + .seconds(1)
    #expect(try await store.removeSessions(redeemedBefore: end, othersBefore: end, limit: 100) == 0)
    #expect(try await store.removeSessions(redeemedBefore: end, othersBefore: later, limit: 4) == 4)
    #expect(try await store.removeSessions(redeemedBefore: end, othersBefore: later, limit: 4) == 3)
    #expect(try await store.session(try session(7).id) != nil)
    #expect(try await store.removeSessions(redeemedBefore: later, othersBefore: later, limit: 4) == 1)
  }
}
