import Domain
import LatchkeyModel
import Storage
import TestSupport
import Testing

@Suite("Whatever people do, in whatever order")
struct SequenceTests {
  @Test(
    "C20: seeded sequences of commands have the same outcomes on every engine, and no session that ended comes back")
  func sequences() async throws {
    let seed = SeededRandom.seed()
    for round in 0..<UInt64(4) {
      var sequences: [Sequence] = []
      for engine in WorldEngine.allCases { sequences.append(Sequence(try await engine.world(seed: seed &+ round))) }
      for step in 0..<240 {
        var outcomes: [String] = []
        for index in sequences.indices { outcomes.append(try await sequences[index].step()) }
        let place = "LATCHKEY_TEST_SEED=\(seed), round \(round), step \(step): \(outcomes)"
        #expect(Set(outcomes).count == 1, "\(place)")
        guard Set(outcomes).count == 1 else { return }
        try await sequences[0].expectSound(place)
      }
      for sequence in sequences { try await sequence.expectSound("LATCHKEY_TEST_SEED=\(seed), round \(round)") }
      let last = try await sequences.asyncMap { sequence in
        try await sequence.world.domain.look(FindChainEnds()).map(\.number).reduce(0, +)
      }
      #expect(Set(last).count == 1 && last[0] > 0)
    }
  }
}

extension [Sequence] {
  fileprivate func asyncMap<Value>(_ body: (Sequence) async throws -> Value) async throws -> [Value] {
    var values: [Value] = []
    for element in self { values.append(try await body(element)) }
    return values
  }
}

/// Three people with three devices, who do this and that with what they were given before.
struct Sequence {
  let world: World
  private var accounts: [(name: String, id: SubjectID)] = []
  private var used: [UsedChallenge] = []
  private var replays: [SignIn.Replay] = []

  init(_ world: World) {
    self.world = world
  }

  private func any<Value>(_ values: [Value]) -> Value? {
    values.isEmpty ? nil : values[world.below(values.count)]
  }

  private var key: String { "key \(world.below(3))" }
  private var name: String { ["ada", "bob", "carl"][world.below(3)] }

  /// What came of the next thing that somebody does.
  mutating func step() async throws -> String {
    world.clock.advance(by: .seconds(world.below(20) == 0 ? 40 * 86_400 : world.below(100)))
    // Sorted: engines end several sessions in an order of their own.
    let known = world.heard.began.sorted { $0.id < $1.id }
    switch world.below(18) {
    case 0, 1: return try await startGuest()
    case 2: return try await register(any(known))
    case 3, 4: return try await signIn(any(known))
    case 5:
      guard let session = any(known) else { return "" }
      return "\(try await world.refresh(session.id, Int64(1 + world.below(3)), isGenuine: world.below(5) > 0))"
    case 6: return try await logOut(any(known))
    case 7:
      guard let session = any(known), let caller = any(known) else { return "" }
      return "\(try await world.domain.perform(RevokeSession(session.id, by: caller.id, at: world.now)))"
    case 8:
      guard let caller = any(known) else { return "" }
      return "\(try await world.domain.perform(RemoveDevice(key, by: caller.id, at: world.now)))"
    case 9: return try await replaceKey(any(known))
    case 10: return try await changeAccount(any(known))
    case 11: return try await unlock(any(known))
    case 12: return try await move(any(known))
    case 13: return try await grant(any(known))
    case 14: return try await mergeGuest(any(known))
    case 15: return try await proveAddress()
    case 16: return try await administer(any(known))
    default: return try await keepHouse()
    }
  }

  private mutating func startGuest() async throws -> String {
    var challenge = world.challenge()
    if world.below(5) == 0, let earlier = any(used) { challenge = earlier }
    used.append(challenge)
    let counter = world.below(3) == 0 ? Int64(world.below(6)) : 0
    return "\(try await world.startGuest(key, counter: counter, challenge: challenge, mayBeNew: world.below(9) > 0))"
  }

  private mutating func register(_ session: Session?) async throws -> String {
    let name = name
    let guest = session.flatMap { $0.isGuest && world.below(2) == 0 ? $0.id : nil }
    let outcome = try await world.register(name, guest: guest)
    if case .registered(let signedIn) = outcome { accounts.append((name, signedIn.session.subject)) }
    return "\(outcome)"
  }

  private mutating func signIn(_ session: Session?) async throws -> String {
    guard let account = any(accounts) else { return "" }
    var guest: SignIn.Guest?
    if let session, session.isGuest {
      let choice: SignIn.GuestChoice = world.below(2) == 0 ? .leave : .merge(world.id(), dueAt: world.now)
      guest = SignIn.Guest(session: session.id, choice: choice)
    }
    var replay: SignIn.Replay?
    if world.below(2) == 0 {
      replay = world.below(3) == 0 ? any(replays) : world.replay()
      if let replay { replays.append(replay) }
    }
    let hash = world.below(6) == 0 ? "wrong" : nil
    return "\(try await world.signIn(account.name, as: account.id, hash: hash, guest: guest, replay: replay))"
  }

  private func logOut(_ session: Session?) async throws -> String {
    guard let session else { return "" }
    let reach: LogOut.Reach = [.local, .others, .global][world.below(3)]
    var next: LogOut.NextGuest?
    if world.below(2) == 0 { next = LogOut.NextGuest(newSubject: world.id(), draft: try world.draft(.guest)) }
    return
      "\(try await world.domain.perform(LogOut(session: session.id, reach: reach, nextGuest: next, now: world.now)))"
  }

  private func replaceKey(_ session: Session?) async throws -> String {
    let replacement = KeyReplacement(
      oldKey: key, device: try world.device(world.below(2) == 0 ? key : "key \(world.below(1000))"),
      challenge: world.challenge(), address: "192.0.2.1", now: world.now)
    guard world.below(2) == 0, let session else {
      let choice: ResolveClone.Choice = world.below(2) == 0 ? .split : .transfer
      return
        "\(try await world.domain.perform(ResolveClone(replacement, choice, newSubject: world.id(), draft: world.draft(.guest))))"
    }
    return "\(try await world.domain.perform(RotateKey(replacement, by: session.id)))"
  }

  private func changeAccount(_ session: Session?) async throws -> String {
    guard let session else { return "" }
    let identifier = try AccountIdentifier(["ada", "lovelace", "ada@example.com"][world.below(3)]).orThrow()
    let code = world.below(2) == 0 ? try await world.code() : nil
    switch world.below(4) {
    case 0:
      return
        "\(try await world.domain.perform(LinkIdentity(identifier, by: session.id, code: code, notice: world.id(), at: world.now)))"
    case 1:
      guard let identity = any(try await world.domain.look(ListIdentities(of: session.subject))) else { return "" }
      return
        "\(try await world.domain.perform(UnlinkIdentity(identity, by: session.id, notice: world.id(), at: world.now)))"
    case 2:
      let current = try await world.domain.look(FindPassword(of: session.subject))
      var authority = ChangePassword.Authority.session(session.id)
      if let code { authority = .code(session.subject, identifier, code) }
      let change = ChangePassword(
        authority: authority, currentHash: current, newHash: world.below(3) == 0 ? nil : "hash of \(name)",
        endsOthers: world.below(2) == 0, notice: world.id(), address: "192.0.2.1", now: world.now)
      return "\(try await world.domain.perform(change))"
    default:
      let rename = UpdateProfile(by: session.id, at: world.now) { $0.nickname = Nickname("Ada") }
      return "\(String(describing: try await world.domain.perform(rename)))"
    }
  }

  private func unlock(_ session: Session?) async throws -> String {
    guard let session else { return "" }
    let (kind, key): (Unlock.Kind, String) = world.below(2) == 0 ? (.key, "lock \(world.below(2))") : (.pattern, key)
    switch world.below(4) {
    case 0, 1:
      let enrol = EnrolUnlock(
        session: session.id, kind: kind, keyThumbprint: key, secretHash: kind == .pattern ? "hash" : nil,
        challenge: world.challenge(), notice: world.id(), now: world.now)
      return "\(try await world.domain.perform(enrol))"
    case 2:
      let found = try await world.domain.perform(TryPattern(of: key))
      if world.below(3) > 0 {
        try await world.domain.perform(SettlePattern(of: key, world.below(2) == 0 ? .held : .notTried))
      }
      return "\(String(describing: found))"
    default:
      guard let unlock = any(try await world.domain.look(ListUnlocks(of: session.subject))) else { return "" }
      return "\(try await world.domain.perform(RemoveUnlock(unlock, by: session.id, at: world.now)))"
    }
  }

  private func move(_ session: Session?) async throws -> String {
    guard let session else { return "" }
    let code = UInt8(world.below(2))
    if world.below(2) == 0 {
      let offer = TransferOffer(
        id: world.id(), codeHash: [code, 1], referenceHash: [code, 2],
        consent: [.either, .kept, .revoked][world.below(3)], address: "192.0.2.1", needsSameNetwork: false,
        createdAt: world.now, expiry: world.now + .seconds(600))
      // One code at a time is anybody's.
      guard try await world.domain.look(FindTransfer([code, 1], at: world.now)) == nil,
        try await world.read({ rows throws(StorageError) in try await rows.transfers.find([code, 1]) }) == nil
      else { return "" }
      return
        "\(try await world.domain.perform(CreateTransfer(offer, by: session.id, provenAt: session.authenticatedAt)))"
    }
    let redeem = RedeemTransfer(
      secretHash: [code, 2], device: try world.device(key), challenge: world.challenge(),
      keepsOld: world.below(2) == 0, isSameNetwork: { _, _ in true }, draft: try world.draft(.transfer))
    return "\(try await world.domain.perform(redeem))"
  }

  private func grant(_ session: Session?) async throws -> String {
    guard let session else { return "" }
    let code = "code \(world.below(4))"
    if world.below(4) == 0 { return "\(try await world.domain.perform(RevokeCode(code, at: world.now)))" }
    let kind: IssueForQr.Kind = [
      .signIn, .bind(try world.device(key), world.id()), .transfer(try world.device(key)),
    ][world.below(3)]
    let issue = IssueForQr(
      qrSession: code, subject: session.subject, confirmedBy: session.id, provenAt: session.authenticatedAt,
      draft: try world.draft(.qr), kind: kind)
    return "\(try await world.domain.perform(issue))"
  }

  private func mergeGuest(_ session: Session?) async throws -> String {
    guard let session, let account = any(accounts) else { return "" }
    let (guest, target) = (session.subject, account.id)
    switch world.below(5) {
    case 0:
      guard let due = try await world.domain.look(DueMerges(at: world.now, limit: 9)).min(by: { $0.id < $1.id }) else {
        return ""
      }
      try await world.domain.perform(PostponeMerge(due.id, because: "down", until: world.now + .seconds(60)))
      try await world.domain.perform(StartMerge(due.id, as: "migration", at: world.now))
      return "\(String(describing: try await world.domain.look(FindMerge(due.id))))"
    case 1:
      let fail = FailMerge(
        "migration", of: guest, into: target, startedWith: nil, because: "broken", at: world.now)
      return "\(try await world.domain.perform(fail))"
    case 2, 3:
      let complete = CompleteMerge("migration \(world.below(9))", of: guest, into: target, at: world.now)
      return "\(try await world.domain.perform(complete))"
    default:
      let restore = RestoreGuest("migration \(world.below(9))", of: guest, from: target, at: world.now)
      return "\(try await world.domain.perform(restore))"
    }
  }

  private func proveAddress() async throws -> String {
    let requester = Requester(
      provenKey: world.below(2) == 0 ? key : nil, source: ["192.0.2.1", "198.51.100.1"][world.below(2)])
    let (account, policy) = (any(accounts)?.id, OneTimeCodePolicy())
    let attempt = SignInAttempt(targetHash: [1], account: account, requester: requester, now: world.now)
    let code = OneTimeCode(identifierHash: [1], codeHash: [UInt8(world.below(3))], handleHash: world.source.bytes(32))
    switch world.below(4) {
    case 0:
      let outcome = try await world.domain.perform(CountAttempt(attempt, under: .pattern))
      guard let counted = outcome.counted else { return "\(outcome)" }
      if world.below(3) == 0 {
        try await world.domain.perform(SettleAttempt(counted, world.below(2) == 0 ? .succeeded : .notMade))
      }
      return "allowed"
    case 1:
      let issue = IssueCode(code, for: account, by: requester, under: policy, at: world.now)
      let outcome = try await world.domain.perform(issue)
      if world.below(3) == 0 { try await world.domain.perform(WithdrawCode(code, under: policy, at: world.now)) }
      return "\(outcome)"
    default:
      var present = PresentCode(
        identifierHash: [1], codeHash: code.codeHash, handleHash: nil, account: account, requester: requester,
        at: world.now)
      present.counted = try await world.domain.perform(CountAttempt(attempt, under: AttemptPolicy())).counted
      return "\(try await world.domain.perform(present))"
    }
  }

  private func administer(_ session: Session?) async throws -> String {
    guard let session else { return "" }
    let subject = session.subject
    switch world.below(5) {
    case 0:
      let delete = DeleteSubject(
        subject: subject, authority: .unused(before: world.now - .seconds(86_400)), now: world.now,
        purgeDueAt: world.now)
      return "\(try await world.domain.perform(delete))"
    case 1:
      let delete = DeleteSubject(
        subject: subject, authority: .account(session.id, world.id()), now: world.now, purgeDueAt: world.now)
      return "\(try await world.domain.perform(delete))"
    case 2, 3:
      let set = SetDisabled(world.below(2) == 0, subject, detail: "", at: world.now)
      return "\(String(describing: try await world.domain.perform(set)))"
    default:
      let end = EndEverybodysSessions(begunUntil: world.now - .seconds(600), limit: 10_000, at: world.now)
      return "\(try await world.domain.perform(end))"
    }
  }

  private func keepHouse() async throws -> String {
    let before = world.now - .seconds(30 * 86_400)
    let forgotten = try await world.domain.perform(Forget(endedBefore: before, at: world.now, limit: 10_000))
    let trimmed = try await world.domain.perform(
      TrimAuditLog(before: before, limit: 20, at: world.now, World.chain))
    let guests = try await world.domain.look(UnusedGuests(before: world.now, after: nil, limit: 3))
    let purges = try await world.domain.look(DuePurges(at: world.now, limit: 100))
    for purge in purges { try await world.domain.perform(SettlePurge(of: purge.subject, .done)) }
    let devices = try await world.domain.look(ListDevices(of: any(accounts)?.id ?? world.id(), at: world.now))
    return "\(forgotten) \(trimmed) \(guests) \(purges.count) \(devices)"
  }

  /// What holds after every step.
  func expectSound(_ comment: String) async throws {
    let ended = world.heard.ended
    #expect(Set(ended.map(\.id)).count == ended.count, "a session ended twice: \(comment)")
    for session in ended { #expect(try await !world.isLive(session.id), "\(session) came back: \(comment)") }
    var guests: [String: Int] = [:]
    for began in world.heard.began where began.isGuest {
      guard let session = try await world.session(began.id), session.isLive(at: world.now) else { continue }
      guests["\(session.subject) on \(session.device.keyThumbprint ?? "")", default: 0] += 1
    }
    #expect(guests.values.allSatisfy { $0 == 1 }, "a guest has two sessions on a device: \(comment)")
  }
}
