import Domain
import LatchkeyModel
import Storage
import Testing

@Suite("Sessions, by the rules")
struct SessionTests {
  @Test("R18, R19: the newest token rotates, its parent brings the same one again, and anything older ends the session")
  func refresh() async throws {
    let world = World()
    let session = try await world.account("ada").session
    guard case .refreshed(let second) = try await world.refresh(session.id, 1),
      case .refreshed(let again) = try await world.refresh(session.id, 1),
      case .refreshed(let third) = try await world.refresh(session.id, 2)
    else {
      Issue.record("a token was refused")
      return
    }
    #expect(second.family.generation == 2 && again == second && third.family.generation == 3)
    guard case .reused = try await world.refresh(session.id, 1) else {
      Issue.record("an old token was not seen")
      return
    }
    #expect(try await world.refresh(session.id, 3) == .ended(.refreshReused))
    #expect(world.heard.ended.map(\.why) == [.refreshReused])
  }

  @Test("R18: forty uses of one token at once give one child")
  func refreshAtOnce() async throws {
    let world = World()
    let session = try await world.account("ada").session
    let generations = try await withThrowingTaskGroup(of: Int64?.self) { group in
      for _ in 0..<40 {
        group.addTask {
          guard case .refreshed(let session) = try await world.refresh(session.id, 1) else { return nil }
          return session.family.generation
        }
      }
      return try await group.reduce(into: Set<Int64?>()) { $0.insert($1) }
    }
    #expect(generations == [2])
  }

  @Test("A token that is not the session's own changes nothing, and one that is over is told so")
  func notGenuine() async throws {
    let world = World()
    let session = try await world.account("ada").session
    #expect(try await world.refresh(session.id, 1, isGenuine: false) == .unknown)
    #expect(try await world.refresh(world.id(), 1) == .unknown)
    #expect(try await world.session(session.id) == session)
    world.clock.advance(by: world.lifetimes.refreshIdle)
    #expect(try await world.refresh(session.id, 1) == .expired)
  }

  @Test("R44: what ends a session ends what came of it, but what its owner keeps")
  func descendants() async throws {
    let world = World()
    let owner = try await world.account("ada").session
    guard case .signedIn(let other) = try await world.signIn("ada", as: owner.subject),
      case .signedIn(let child) = try await world.signIn("ada", as: owner.subject)
    else {
      Issue.record("nobody signed in")
      return
    }
    let unlock = Unlock(
      kind: .key, keyThumbprint: "lock", account: owner.subject, deviceKey: "laptop", secretHash: nil,
      enrolledAt: world.now)
    try await world.write { rows throws(StorageError) in
      try await rows.unlocks.put(unlock, triesLeft: 10)
      try await rows.lineage.insert(.session(child.session.id), cameOf: .session(other.session.id))
      try await rows.lineage.insert(.unlock(.key, key: "lock"), cameOf: .session(other.session.id))
      try await rows.lineage.insert(.identity(.userName, value: "ada"), cameOf: .session(other.session.id))
    }
    #expect(
      try await world.domain.perform(RevokeSession(other.session.id, by: owner.id, at: world.now)) == .changed)
    #expect(try await !world.isLive(other.session.id))
    #expect(try await !world.isLive(child.session.id))
    #expect(try await world.isLive(owner.id))
    let name = try AccountIdentifier("ada").orThrow()
    let left = try await world.read { rows throws(StorageError) in
      (try await rows.unlocks.find(.key, "lock"), try await rows.identities.find(name)?.owner)
    }
    // Its owner, who is signed in, can link another.
    #expect(left.0 == nil && left.1 == nil)
    #expect(
      try await world.domain.perform(RevokeSession(other.session.id, by: owner.id, at: world.now)) == .already)
    #expect(
      try await world.domain.perform(RevokeSession(owner.id, by: other.session.id, at: world.now)) == .callerEnded)
  }

  @Test("R44: the last address that came of what was ended stays where nobody is signed in")
  func lastAddress() async throws {
    let world = World()
    let thief = try await world.account("ada").session
    try await world.write { rows throws(StorageError) in
      try await rows.lineage.insert(.identity(.userName, value: "ada"), cameOf: .session(thief.id))
    }
    #expect(try await world.domain.perform(EndSession(thief.id, because: .revoked, at: world.now)))
    let name = try AccountIdentifier("ada").orThrow()
    let owner = try await world.read { rows throws(StorageError) in try await rows.identities.find(name)?.owner }
    #expect(owner == thief.subject)
  }

  @Test("A session came of a code as long as nobody proved in it since who they are")
  func letIn() async throws {
    let world = World()
    let session = try await world.account("ada").session
    #expect(try await !world.domain.look(IsLetIn(session.id)))
    try await world.write { rows throws(StorageError) in
      try await rows.lineage.insert(.session(session.id), cameOf: .code("code"))
    }
    #expect(try await world.domain.look(IsLetIn(session.id)))
    world.clock.advance(by: .seconds(1))
    let proof = SignIn.Proof.password(
      account: session.subject, identifier: try AccountIdentifier("ada").orThrow(), hash: "hash of ada")
    let stepUp = StepUp(
      session: session.id, proof: .credential(proof), challenge: nil, lifetimes: world.lifetimes,
      address: "192.0.2.1", now: world.now)
    guard case .steppedUp = try await world.domain.perform(stepUp) else {
      Issue.record("the owner's own proof was refused")
      return
    }
    #expect(try await !world.domain.look(IsLetIn(session.id)))
  }

  @Test("R46: a step up rotates by two, so that the token of before is nobody's; the proof must be the account's own")
  func stepUp() async throws {
    let world = World()
    let (ada, bob) = (try await world.account("ada").session, try await world.account("bob").session)
    func stepUp(_ name: String, _ account: SubjectID, _ challenge: UsedChallenge?) async throws -> StepUp.Outcome {
      let proof = SignIn.Proof.password(
        account: account, identifier: try AccountIdentifier(name).orThrow(), hash: "hash of \(name)")
      return try await world.domain.perform(
        StepUp(
          session: ada.id, proof: .credential(proof), challenge: challenge, lifetimes: world.lifetimes,
          address: "192.0.2.1", now: world.now))
    }
    let challenge = world.challenge()
    #expect(try await stepUp("bob", bob.subject, challenge) == .credentialChanged)
    guard case .steppedUp(let session) = try await stepUp("ada", ada.subject, challenge) else {
      Issue.record("the owner's own proof was refused")
      return
    }
    #expect(session.family.generation == 3 && session.confirmedAt == world.now)
    #expect(try await stepUp("ada", ada.subject, challenge) == .challengeUsed)
    guard case .reused = try await world.refresh(ada.id, 1) else {
      Issue.record("the token of before still holds")
      return
    }
  }
}
