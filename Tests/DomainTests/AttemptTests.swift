import Domain
import LatchkeyModel
import Storage
import Testing

@Suite("Tries and codes are counted for who makes them, by the rules")
struct AttemptTests {
  private let world = World()

  private func attempt(_ account: SubjectID?, by requester: Requester) -> SignInAttempt {
    SignInAttempt(targetHash: [7], account: account, requester: requester, now: world.now)
  }

  private func count(
    _ account: SubjectID?, by requester: Requester, under policy: AttemptPolicy = AttemptPolicy()
  ) async throws -> CountAttempt.Outcome {
    try await world.domain.perform(CountAttempt(attempt(account, by: requester), under: policy))
  }

  /// How many tries may be made at this moment, at most forty.
  private func allowed(_ account: SubjectID?, by requester: Requester) async throws -> Int {
    try await withThrowingTaskGroup(of: Bool.self) { group in
      for _ in 0..<40 { group.addTask { try await count(account, by: requester).counted != nil } }
      return try await group.reduce(0) { $0 + ($1 ? 1 : 0) }
    }
  }

  @Test("R24: of forty tries at once ten are made; what was right, or was not made, does not count")
  func atOnce() async throws {
    let stranger = Requester(source: "192.0.2.9")
    for _ in 0..<8 { _ = try await count(nil, by: stranger) }
    try await world.domain.perform(SettleAttempt(try #require(count(nil, by: stranger).counted), .succeeded))
    let made = try #require(try await count(nil, by: stranger).counted)
    try await world.domain.perform(SettleAttempt(made, .notMade))
    #expect(try await allowed(nil, by: stranger) == 10)
    guard case .wait(let wait) = try await count(nil, by: stranger) else {
      Issue.record("an eleventh try was made at once")
      return
    }
    #expect(wait == .seconds(1))
    for _ in 0..<3 { try await world.domain.perform(SettleAttempt(made, .notMade)) }
    #expect(try await allowed(nil, by: stranger) == 3)
    world.clock.advance(by: .seconds(2))
    #expect(try await count(nil, by: stranger).counted != nil)
  }

  @Test("R24: a try that was not made does not begin the wait for the next one anew")
  func notMade() async throws {
    let stranger = Requester(source: "192.0.2.9")
    #expect(try await allowed(nil, by: stranger) == 10)
    world.clock.advance(by: .seconds(1))
    for _ in 0..<3 {
      let counted = try #require(try await count(nil, by: stranger).counted)
      #expect(try await count(nil, by: stranger).counted == nil)
      try await world.domain.perform(SettleAttempt(counted, .notMade))
    }
    // Nor does it take the time of one that came since.
    let first = try #require(try await count(nil, by: stranger).counted)
    world.clock.advance(by: .seconds(2))
    _ = try #require(try await count(nil, by: stranger).counted)
    try await world.domain.perform(SettleAttempt(first, .notMade))
    #expect(try await count(nil, by: stranger) == .wait(.seconds(2)))
  }

  @Test("R49: a known network's tries are forgotten one by one while there are none, and strangers' are not")
  func forgotten() async throws {
    let ada = try await world.account("ada").session
    let known = Requester(source: "192.0.2.7")
    let proof = SignIn.Proof.password(
      account: ada.subject, identifier: try AccountIdentifier("ada").orThrow(), hash: "hash of ada")
    let signIn = SignIn(proof: proof, guest: nil, draft: try world.draft(.password), source: known.source)
    guard case .signedIn = try await world.domain.perform(signIn) else { throw Unexpected() }
    let stranger = Requester(source: "192.0.2.9")
    for requester in [known, stranger] { #expect(try await allowed(ada.subject, by: requester) == 10) }
    world.clock.advance(by: .seconds(3 * 9600 - 1))
    // One that was not made leaves what is forgotten as it was.
    for _ in 0..<3 {
      let counted = try #require(try await count(ada.subject, by: known).counted)
      try await world.domain.perform(SettleAttempt(counted, .notMade))
    }
    #expect(try await allowed(ada.subject, by: known) == 2)
    #expect(try await allowed(ada.subject, by: stranger) == 1)
    // Whoever mistypes once a day never comes to wait.
    for _ in 0..<40 {
      world.clock.advance(by: .seconds(86_400))
      #expect(try await count(ada.subject, by: known).counted != nil)
    }
    #expect(try await allowed(ada.subject, by: known) == 9)
  }

  @Test("R24: a clock that was set back by a day keeps nobody waiting for longer than the wait that they had")
  func clockSetBack() async throws {
    let stranger = Requester(source: "192.0.2.9")
    world.clock.advance(by: .seconds(86_400))
    #expect(try await allowed(nil, by: stranger) == 10)
    world.clock.advance(by: .seconds(-86_400))
    #expect(try await count(nil, by: stranger) == .wait(.seconds(1)))
    world.clock.advance(by: .milliseconds(999))
    #expect(try await count(nil, by: stranger) == .wait(.milliseconds(1)))
    world.clock.advance(by: .milliseconds(1))
    #expect(try await count(nil, by: stranger).counted != nil)
    // A difference as instances have it gives nobody a try before its time.
    world.clock.advance(by: .seconds(-2))
    #expect(try await count(nil, by: stranger) == .wait(.seconds(2)))
    world.clock.advance(by: .milliseconds(2001))
    #expect(try await count(nil, by: stranger) == .wait(.milliseconds(1999)))
  }

  @Test("Strangers use up their own share, of a network and together; known devices and networks have theirs")
  func shares() async throws {
    let ada = try await world.account("ada", on: "phone")
    _ = try await world.signIn("ada", as: ada.subject)
    for number in 0..<5 {
      #expect(try await allowed(ada.subject, by: Requester(source: "198.51.100.\(number)")) == 10)
    }
    #expect(try await allowed(ada.subject, by: Requester(source: "203.0.113.1")) == 0)
    // The owner's device by its key, or by its guest's session, and the network that they signed in from.
    #expect(try await count(ada.subject, by: Requester(provenKey: "phone", source: "198.51.100.1")).counted != nil)
    let guest = try await world.guest("phone")
    #expect(
      try await count(ada.subject, by: Requester(guestSession: guest.id, source: "198.51.100.1")).counted != nil)
    #expect(try await count(ada.subject, by: Requester(source: "192.0.2.1")).counted != nil)
    world.clock.advance(by: .seconds(91 * 86_400))
    _ = try await allowed(ada.subject, by: Requester(source: "192.0.2.1"))
    #expect(try await count(ada.subject, by: Requester(source: "192.0.2.1")).counted == nil)
  }

  @Test("R24: a try that was right begins anew what it counted for, although its network is known by then")
  func knownMeanwhile() async throws {
    let ada = try await world.account("ada").session.subject
    let network = "203.0.113.9"
    let counted = try #require(try await count(ada, by: Requester(source: network)).counted)
    let identifier = try AccountIdentifier("ada").orThrow()
    let outcome = try await world.domain.perform(
      SignIn(
        proof: .password(account: ada, identifier: identifier, hash: "hash of ada"), guest: nil,
        draft: try world.draft(.password), source: network))
    guard case .signedIn = outcome else { throw Unexpected() }
    try await world.domain.perform(SettleAttempt(counted, .succeeded))
    var made = 0
    for number in 0..<5 { made += try await allowed(ada, by: Requester(source: "198.51.100.\(number)")) }
    #expect(made == 50)
  }

  // MARK: Codes

  private let policy = OneTimeCodePolicy()

  private func code(_ digits: UInt8) -> OneTimeCode {
    OneTimeCode(identifierHash: [1], codeHash: [digits], handleHash: world.source.bytes(32))
  }

  private func issue(
    _ code: OneTimeCode, by requester: Requester, for account: SubjectID? = nil
  ) async throws -> IssueCode.Outcome {
    try await world.domain.perform(IssueCode(code, for: account, by: requester, under: policy, at: world.now))
  }

  private func present(
    _ digits: UInt8, _ handle: [UInt8]?, by requester: Requester
  ) async throws -> PresentCode.Outcome {
    try await world.domain.perform(
      PresentCode(
        identifierHash: [1], codeHash: [digits], handleHash: handle, account: nil, requester: requester, at: world.now))
  }

  @Test("R24: a code is compared five times, forty guesses at once or not; the right one holds until it is spent")
  func present() async throws {
    let here = Requester(source: "192.0.2.9")
    let sent = code(42)
    #expect(try await issue(sent, by: here) == .issued)
    #expect(try await present(42, sent.handleHash, by: here) == .holds(sent))
    #expect(try await present(42, nil, by: here) == .holds(sent))
    let outcomes = try await withThrowingTaskGroup(of: PresentCode.Outcome.self) { group in
      for _ in 0..<40 { group.addTask { try await present(7, sent.handleHash, by: here) } }
      return try await group.reduce(into: [PresentCode.Outcome]()) { $0.append($1) }
    }
    #expect(outcomes.filter { $0 == .void }.count == 35)
    for left in Int64(0)..<5 { #expect(outcomes.contains(.wrong(attemptsLeft: left))) }
    #expect(try await present(42, sent.handleHash, by: here) == .void)
    world.clock.advance(by: policy.resendAfter)
    let second = code(43)
    _ = try await issue(second, by: here)
    world.clock.advance(by: policy.lifetime)
    #expect(try await present(43, second.handleHash, by: here) == .void)
  }

  @Test("R54: a code is found by its handle while it may be tried, for the address that it was sent to and no other")
  func find() async throws {
    let here = Requester(source: "192.0.2.9")
    func isFound(_ handle: [UInt8], of identifier: [UInt8] = [1]) async throws -> Bool {
      try await world.domain.perform(FindCode(identifierHash: identifier, handleHash: handle, at: world.now))
    }
    let first = code(42)
    _ = try await issue(first, by: here)
    var found = try await [isFound(first.handleHash), isFound(first.handleHash, of: [2]), isFound([9]), isFound([])]
    #expect(found == [true, false, false, false])
    for _ in 0..<5 { _ = try await present(7, first.handleHash, by: here) }
    world.clock.advance(by: policy.resendAfter)
    let second = code(43)
    _ = try await issue(second, by: here)
    found = try await [isFound(first.handleHash), isFound(second.handleHash)]
    #expect(found == [false, true])
    for _ in 0..<5 { _ = try await present(7, second.handleHash, by: here) }
    found = try await [isFound(second.handleHash)]
    world.clock.advance(by: policy.resendAfter)
    let third = code(44)
    _ = try await issue(third, by: here)
    found.append(try await isFound(third.handleHash))
    world.clock.advance(by: policy.lifetime)
    found.append(try await isFound(third.handleHash))
    #expect(found == [false, true, false])
  }

  @Test("Whoever guesses from elsewhere without the handle leaves the requester's tries alone")
  func elsewhere() async throws {
    let (here, there) = (Requester(source: "192.0.2.9"), Requester(source: "198.51.100.1"))
    let sent = code(42)
    _ = try await issue(sent, by: here)
    #expect(try await present(42, nil, by: there) == .holds(sent))
    #expect(try await present(42, [9], by: there) == .void)
    for left in (Int64(0)..<5).reversed() {
      #expect(try await present(7, nil, by: there) == .wrong(attemptsLeft: left))
    }
    #expect(try await present(42, nil, by: there) == .void)
    #expect(try await present(42, sent.handleHash, by: there) == .holds(sent))
    #expect(try await present(42, nil, by: here) == .holds(sent))
  }

  @Test(
    "Codes go out a minute apart, five in an hour to one requester and twenty to all strangers; a known one has room")
  func sends() async throws {
    let here = Requester(source: "192.0.2.9")
    #expect(try await issue(code(1), by: here) == .issued)
    #expect(try await issue(code(2), by: here) == .wait(.seconds(60)))
    for number in UInt8(2)...5 {
      world.clock.advance(by: .seconds(60))
      #expect(try await issue(code(number), by: here) == .issued)
    }
    world.clock.advance(by: .seconds(60))
    #expect(try await issue(code(6), by: here) == .wait(.seconds(3300)))
    for number in 0..<15 {
      #expect(try await issue(code(1), by: Requester(source: "198.51.100.\(number)")) == .issued)
    }
    #expect(try await issue(code(1), by: Requester(source: "203.0.113.1")) == .wait(.seconds(3300)))
    let ada = try await world.account("ada", on: "phone")
    let known = Requester(provenKey: "phone", source: "203.0.113.1")
    #expect(try await issue(code(1), by: known, for: ada.subject) == .issued)
    world.clock.advance(by: .seconds(3300))
    #expect(try await issue(code(6), by: here) == .issued)
  }

  @Test("A code that did not arrive is void, and did not count")
  func withdraw() async throws {
    let here = Requester(source: "192.0.2.9")
    for number in UInt8(0)..<30 {
      let sent = code(number)
      #expect(try await issue(sent, by: here) == .issued)
      try await world.domain.perform(WithdrawCode(sent, under: policy, at: world.now))
      #expect(try await present(number, sent.handleHash, by: here) == .void)
    }
    // One that was never sent, or was replaced, withdraws nothing.
    let sent = code(42)
    _ = try await issue(sent, by: here)
    try await world.domain.perform(WithdrawCode(code(42), under: policy, at: world.now))
    #expect(try await present(42, sent.handleHash, by: here) == .holds(sent))
  }
}
