import Domain
import LatchkeyModel
import Storage
import Testing

@Suite("What unlocks accounts on single devices, by the rules")
struct UnlockTests {
  private let world = World()

  private func enrol(
    _ key: String, _ kind: Unlock.Kind = .key, by caller: Session, challenge: UsedChallenge? = nil
  ) async throws -> EnrolUnlock.Outcome {
    try await world.domain.perform(
      EnrolUnlock(
        session: caller.id, kind: kind, keyThumbprint: key, secretHash: kind == .pattern ? "hash of a pattern" : nil,
        challenge: challenge ?? world.challenge(), notice: world.id(), now: world.now))
  }

  private func remove(_ unlock: Unlock, by caller: Session) async throws -> RemoveUnlock.Outcome {
    try await world.domain.perform(RemoveUnlock(unlock, by: caller.id, at: world.now))
  }

  @Test("R14: a session that ended a moment ago enrols nothing and removes nothing")
  func ended() async throws {
    let ada = try await world.account("ada", on: "phone")
    guard case .enrolled(let unlock, _) = try await enrol("finger", by: ada) else { throw Unexpected() }
    _ = try await world.domain.perform(EndSession(ada.id, because: .loggedOut, at: world.now))
    #expect(try await remove(unlock, by: ada) == .callerEnded)
    #expect(try await enrol("thief's", by: ada) == .callerEnded)
    #expect(try await world.domain.look(ListUnlocks(of: ada.subject)) == [unlock])
  }

  @Test("A key unlocks one account; enrolled again it takes its own place, and removed it is anybody's")
  func keys() async throws {
    let (ada, bob) = (try await world.account("ada", on: "phone"), try await world.account("bob", on: "laptop"))
    guard case .enrolled(let unlock, isNew: true) = try await enrol("finger", by: ada),
      case .enrolled(_, isNew: false) = try await enrol("finger", by: ada)
    else {
      Issue.record("the key was refused")
      return
    }
    #expect(unlock.deviceKey == "phone" && unlock.account == ada.subject)
    #expect(try await enrol("finger", by: bob) == .taken)
    let found = try await world.domain.look(FindUnlock(byKey: "finger"))
    #expect(found == FoundUnlock(unlock: unlock, mask: AccountIdentifier("ada")?.mask ?? ""))
    #expect(try await remove(unlock, by: bob) == .callerEnded)
    #expect(try await remove(unlock, by: ada) == .removed)
    #expect(try await remove(unlock, by: ada) == .notFound)
    #expect(try await world.domain.look(FindUnlock(byKey: "finger")) == nil)
    guard case .enrolled(_, isNew: true) = try await enrol("finger", by: bob) else {
      Issue.record("a key that was removed is still somebody's")
      return
    }
  }

  @Test("Only the owner's own session enrols, on its own device, with a challenge that holds once")
  func refusals() async throws {
    let ada = try await world.account("ada", on: "phone")
    let guest = try await world.guest("tablet")
    let away = try await world.account("bob").session
    let challenge = world.challenge()
    #expect(try await enrol("finger", by: guest) == .callerEnded)
    #expect(try await enrol("finger", by: away, challenge: challenge) == .notThisDevice)
    #expect(try await enrol("finger", .pattern, by: ada, challenge: challenge) == .notThisDevice)
    guard case .enrolled = try await enrol("finger", by: ada, challenge: challenge) else {
      Issue.record("a refusal spent the challenge")
      return
    }
    #expect(try await enrol("face", by: ada, challenge: challenge) == .challengeUsed)
    let basic = Session(ada, id: world.id(), scope: .basic)
    try await world.write { rows throws(StorageError) in try await rows.sessions.insert(basic) }
    #expect(try await enrol("face", by: basic) == .unconfirmed)
    _ = try await world.domain.perform(EndSession(ada.id, because: .loggedOut, at: world.now))
    #expect(try await enrol("face", by: ada) == .callerEnded)
    #expect(try await world.domain.look(ListUnlocks(of: ada.subject)).map(\.keyThumbprint) == ["finger"])
  }

  @Test("An account has at most sixty-four; one that takes its own place needs no room")
  func full() async throws {
    let ada = try await world.account("ada", on: "phone")
    for number in 0..<64 { _ = try await enrol("key \(number)", by: ada) }
    #expect(try await enrol("one more", by: ada) == .full)
    guard case .enrolled(_, isNew: false) = try await enrol("key 7", by: ada) else {
      Issue.record("there was no room for what is there")
      return
    }
  }

  @Test("R44: an unlock came of the session that enrolled it last, and of nothing before")
  func lineage() async throws {
    let ada = try await world.account("ada", on: "phone")
    _ = try await enrol("finger", by: ada)
    guard case .signedIn(let again) = try await world.signIn("ada", as: ada.subject) else { throw Unexpected() }
    let onPhone = Session(again.session, id: world.id(), on: "phone")
    try await world.write { rows throws(StorageError) in try await rows.sessions.insert(onPhone) }
    _ = try await enrol("finger", by: onPhone)
    let ancestors = try await world.read { rows throws(StorageError) in
      try await rows.lineage.ancestors(of: .unlock(.key, key: "finger"))
    }
    #expect(ancestors == [.session(onPhone.id)])
  }

  @Test("Of forty who try a pattern at once ten may; the right one brings all tries back, also the last of them")
  func pattern() async throws {
    let ada = try await world.account("ada", on: "phone")
    _ = try await enrol("phone", .pattern, by: ada)
    func tryAtOnce() async throws -> Int {
      try await withThrowingTaskGroup(of: Bool.self) { group in
        for _ in 0..<40 { group.addTask { try await world.domain.perform(TryPattern(of: "phone")) != nil } }
        return try await group.reduce(0) { $0 + ($1 ? 1 : 0) }
      }
    }
    func settle(_ result: SettlePattern.Result) async throws {
      try await world.domain.perform(SettlePattern(of: "phone", result))
    }
    for _ in 0..<9 { _ = try await world.domain.perform(TryPattern(of: "phone")) }
    try await settle(.held)
    #expect(try await tryAtOnce() == 10)
    try await settle(.held)
    #expect(try await tryAtOnce() == 10)
    #expect(try await world.domain.perform(TryPattern(of: "phone")) == nil)
    // What was not tried after all is there again, and no more than there were.
    try await settle(.notTried)
    #expect(try await world.domain.perform(TryPattern(of: "phone"))?.unlock.secretHash == "hash of a pattern")
    _ = try await enrol("phone", .pattern, by: ada)
    try await settle(.notTried)
    #expect(try await tryAtOnce() == 10)
    #expect(try await world.domain.perform(TryPattern(of: "absent")) == nil)
  }
}

extension Session {
  /// Another session of the same subject, as it might have begun elsewhere.
  init(_ other: Session, id: SessionID, scope: Scope? = nil, on device: String? = nil) {
    self.init(
      id: id, subject: other.subject, isGuest: other.isGuest, client: other.client, scope: scope ?? other.scope,
      method: other.method, device: Session.Device(keyThumbprint: device ?? other.device.keyThumbprint),
      boundKeyThumbprint: nil, refreshSeed: other.refreshSeed, beganAt: other.beganAt,
      authenticatedAt: other.authenticatedAt, family: other.family)
  }
}
