import Domain
import LatchkeyModel
import Storage
import Testing

/// What is counted is counted right when forty try at once (C3): whoever decides looks at what nobody else changes
/// meanwhile.
@Suite("C3: forty guesses at once are forty, on every engine", .serialized)
struct GuessesAtOnceTests {
  private static let here = Requester(source: "192.0.2.9")

  private static func code(_ digits: UInt8, in world: World) -> OneTimeCode {
    OneTimeCode(identifierHash: [1], codeHash: [digits], handleHash: world.source.bytes(32))
  }

  private static func issue(
    _ code: OneTimeCode, by requester: Requester, in world: World
  ) async throws -> IssueCode.Outcome {
    try await world.domain.perform(
      IssueCode(code, for: nil, by: requester, under: OneTimeCodePolicy(), at: world.now))
  }

  private static func present(
    _ digits: UInt8, _ handle: [UInt8]?, by requester: Requester, in world: World
  ) async throws -> PresentCode.Outcome {
    try await world.domain.perform(
      PresentCode(
        identifierHash: [1], codeHash: [digits], handleHash: handle, account: nil, requester: requester, at: world.now))
  }

  @Test("C3: forty guesses at a code of five tries compare five", arguments: WorldEngine.allCases)
  func codes(_ engine: WorldEngine) async throws {
    let world = try await engine.world()
    let sent = Self.code(42, in: world)
    #expect(try await Self.issue(sent, by: Self.here, in: world) == .issued)
    let own = try await world.forty { _ in
      try await Self.present(7, sent.handleHash, by: Self.here, in: world)
    }
    #expect(own.filter { $0 == .void }.count == 35)
    for left in Int64(0)..<5 { #expect(own.filter { $0 == .wrong(attemptsLeft: left) }.count == 1) }
    let elsewhere = try await world.forty { number in
      try await Self.present(7, nil, by: Requester(source: "198.51.100.\(number)"), in: world)
    }
    #expect(elsewhere.filter { $0 == .void }.count == 35)
  }

  @Test("C3: of guesses at twenty strangers' codes at once fifty are compared", arguments: WorldEngine.allCases)
  func strangersCodes(_ engine: WorldEngine) async throws {
    let world = try await engine.world()
    for number in 0..<20 { _ = try await world.sendCode(1, to: "198.51.100.\(number)") }
    let guesses = try await world.forty { number in try await world.guessCode(7, from: "203.0.113.\(number)") }
    #expect(guesses.contains { $0 != nil })
    #expect(try await world.triesElsewhere() == 50)
  }

  @Test(
    "C3: of forty codes asked for at once one requester gets one, strangers twenty", arguments: WorldEngine.allCases)
  func sends(_ engine: WorldEngine) async throws {
    let world = try await engine.world()
    let own = try await world.forty { _ in try await Self.issue(Self.code(1, in: world), by: Self.here, in: world) }
    #expect(own.filter { $0 == .issued }.count == 1)
    let strangers = try await world.forty { number in
      try await Self.issue(Self.code(1, in: world), by: Requester(source: "198.51.100.\(number)"), in: world)
    }
    #expect(strangers.filter { $0 == .issued }.count == 19)
  }

  @Test("C3: a code signs in once, whoever else has it at the same moment", arguments: WorldEngine.allCases)
  func spent(_ engine: WorldEngine) async throws {
    let world = try await engine.world()
    let ada = try await world.account("ada@example.com").session
    let identifier = try AccountIdentifier("ada@example.com").orThrow()
    _ = try await world.domain.perform(
      LinkIdentity(identifier, by: ada.id, code: try await world.code(), notice: world.id(), at: world.now))
    let code = try await world.code()
    let outcomes = try await world.forty { _ in
      try await world.domain.perform(
        SignIn(
          proof: .code(account: ada.subject, identifier: identifier, code: code), guest: nil,
          draft: try world.draft(.otp)))
    }
    #expect(outcomes.filter { $0 == .credentialChanged }.count == 39)
    #expect(try await world.live(of: ada.subject).count == 2)
  }

  @Test(
    "C3: of forty tries of a password ten are made; a second network's share is its own",
    arguments: WorldEngine.allCases)
  func attempts(_ engine: WorldEngine) async throws {
    let world = try await engine.world()
    @Sendable func attempt(_ source: String) -> SignInAttempt {
      SignInAttempt(targetHash: [7], account: nil, requester: Requester(source: source), now: world.now)
    }
    var made: [CountedAttempt] = []
    for source in ["192.0.2.9", "198.51.100.1"] {
      let outcomes = try await world.forty { _ in
        try await world.domain.perform(CountAttempt(attempt(source), under: AttemptPolicy()))
      }
      #expect(outcomes.compactMap(\.counted).count == 10)
      if source == "192.0.2.9" { made = outcomes.compactMap(\.counted) }
    }
    // Forty that give one back each and forty that count leave what some order of them leaves.
    for counted in made.prefix(3) { try await world.domain.perform(SettleAttempt(counted, .notMade)) }
    let again = try await world.forty { _ in
      try await world.domain.perform(CountAttempt(attempt("192.0.2.9"), under: AttemptPolicy()))
    }
    #expect(again.compactMap(\.counted).count == 3)
  }

  @Test("C3: a pattern is handed out ten times", arguments: WorldEngine.allCases)
  func patterns(_ engine: WorldEngine) async throws {
    let world = try await engine.world()
    let ada = try await world.account("ada", on: "phone")
    _ = try await world.domain.perform(
      EnrolUnlock(
        session: ada.id, kind: .pattern, keyThumbprint: "phone", secretHash: "hash", challenge: world.challenge(),
        notice: world.id(), now: world.now))
    let tries = try await world.forty { _ in try await world.domain.perform(TryPattern(of: "phone")) != nil }
    #expect(tries.filter { $0 }.count == 10)
    try await world.domain.perform(SettlePattern(of: "phone", .notTried))
    let again = try await world.forty { _ in try await world.domain.perform(TryPattern(of: "phone")) != nil }
    #expect(again.filter { $0 }.count == 1)
  }

  @Test("C3: an offer to move stands five wrong presentations, and is redeemed once", arguments: WorldEngine.allCases)
  func transfers(_ engine: WorldEngine) async throws {
    let world = try await engine.world()
    @Sendable func offer(_ code: UInt8, by caller: Session) async throws {
      let offer = TransferOffer(
        id: world.id(), codeHash: [code, 1], referenceHash: [code, 2], consent: .kept, address: "192.0.2.1",
        needsSameNetwork: false, createdAt: world.now, expiry: world.now + .seconds(600))
      _ = try await world.domain.perform(CreateTransfer(offer, by: caller.id, provenAt: caller.authenticatedAt))
    }
    @Sendable func redeem(_ code: UInt8, on key: String, keepsOld: Bool) async throws -> RedeemTransfer.Outcome {
      try await world.domain.perform(
        RedeemTransfer(
          secretHash: [code, 1], device: try world.device(key), challenge: world.challenge(), keepsOld: keepsOld,
          isSameNetwork: { _, _ in true }, draft: try world.draft(.transfer)))
    }
    let ada = try await world.account("ada", on: "phone")
    try await offer(1, by: ada)
    let wrong = try await world.forty { number in try await redeem(1, on: "new \(number)", keepsOld: false) }
    #expect(wrong.filter { $0 == .notAgreed }.count == 5 && wrong.filter { $0 == .unknown }.count == 35)
    try await offer(2, by: ada)
    let right = try await world.forty { number in try await redeem(2, on: "new \(number)", keepsOld: true) }
    #expect(right.filter { $0 == .unknown }.count == 39)
    #expect(try await world.live(of: ada.subject).count == 2)
    // Offers that one session makes at once: one stands.
    _ = try await world.forty { number in try await offer(UInt8(100 + number), by: ada) }
    let standing = try await world.forty { number in
      try await world.domain.look(FindTransfer([UInt8(100 + number), 1], at: world.now)) != nil
    }
    #expect(standing.filter { $0 }.count == 1)
  }

  @Test("C3: a challenge holds once, for whatever it is shown at the same moment", arguments: WorldEngine.allCases)
  func challenges(_ engine: WorldEngine) async throws {
    let world = try await engine.world()
    let ada = try await world.account("ada").session
    let challenge = world.challenge()
    let outcomes = try await world.forty { number in
      if number % 2 == 0 {
        guard case .started = try await world.startGuest("key \(number)", challenge: challenge) else { return false }
        return true
      }
      guard case .signedIn = try await world.signIn("ada", as: ada.subject, challenge: challenge) else { return false }
      return true
    }
    #expect(outcomes.filter { $0 }.count == 1)
    #expect(try await world.isChainWhole())
  }

  @Test("C3: a number that a key has signed is taken once", arguments: WorldEngine.allCases)
  func counters(_ engine: WorldEngine) async throws {
    let world = try await engine.world()
    _ = try await world.startGuest("key", counter: 1)
    let outcomes = try await world.forty { _ in
      if case .started = try await world.startGuest("key", counter: 2) { true } else { false }
    }
    #expect(outcomes.filter { $0 }.count == 1)
    #expect(try await world.notes(.deviceCloned).count == 1)
  }

  @Test("C3: equal sign-ins at once are one", arguments: WorldEngine.allCases)
  func replays(_ engine: WorldEngine) async throws {
    let world = try await engine.world()
    let ada = try await world.account("ada").session
    let (replay, challenge) = (world.replay(), world.challenge())
    let outcomes = try await world.forty { _ -> (session: SessionID, isFirst: Bool)? in
      switch try await world.signIn("ada", as: ada.subject, replay: replay, challenge: challenge) {
      case .signedIn(let signedIn): (signedIn.session.id, true)
      case .repeated(let signedIn): (signedIn.session.id, false)
      default: nil
      }
    }
    let sessions = outcomes.compactMap { $0 }
    #expect(sessions.count == 40 && Set(sessions.map(\.session)).count == 1 && sessions.filter(\.isFirst).count == 1)
    #expect(try await world.live(of: ada.subject).count == 2)
  }
}
