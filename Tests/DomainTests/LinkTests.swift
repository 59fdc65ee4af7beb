import Domain
import LatchkeyModel
import Storage
import Testing

@Suite("What leads to an account, by the rules")
struct LinkTests {
  private let world = World()

  private func link(
    _ text: String, by caller: Session, code: OneTimeCode? = nil, challenge: UsedChallenge? = nil
  ) async throws -> LinkIdentity.Outcome {
    let identifier = try AccountIdentifier(text).orThrow()
    return try await world.domain.perform(
      LinkIdentity(identifier, by: caller.id, code: code, challenge: challenge, notice: world.id(), at: world.now))
  }

  private func names(of account: SubjectID) async throws -> [String] {
    try await world.domain.look(ListIdentities(of: account)).map(\.value)
  }

  @Test("An identifier leads to one account; linked again it is the same, and the last one stays")
  func linkAndUnlink() async throws {
    let (ada, bob) = (try await world.account("ada").session, try await world.account("bob").session)
    world.clock.advance(by: .seconds(1))
    guard case .linked(let countess) = try await link("countess", by: ada) else {
      Issue.record("a free name was refused")
      return
    }
    #expect(try await link("countess", by: ada) == .already(countess))
    #expect(try await link("countess", by: bob) == .taken)
    #expect(try await names(of: ada.subject) == ["ada", "countess"])
    #expect(try await world.domain.look(FindMask(of: ada.subject)) == AccountIdentifier("ada")?.mask)
    func unlink(_ identity: Identity, by caller: Session) async throws -> UnlinkIdentity.Outcome {
      try await world.domain.perform(UnlinkIdentity(identity, by: caller.id, notice: world.id(), at: world.now))
    }
    #expect(try await unlink(countess, by: bob) == .notFound)
    #expect(try await unlink(countess, by: ada) == .unlinked)
    let last = try await world.domain.look(ListIdentities(of: ada.subject))[0]
    #expect(try await unlink(last, by: ada) == .last)
    // What came of a session goes with it; what is gone came of nothing.
    let ancestors = try await world.read { rows throws(StorageError) in
      try await rows.lineage.ancestors(of: .identity(.userName, value: "countess"))
    }
    #expect(ancestors.isEmpty)
  }

  @Test("A session that has ended, or is a guest's, links nothing and takes nothing off")
  func callers() async throws {
    let ada = try await world.account("ada").session
    let guest = try await world.guest("key")
    let identity = try await world.domain.look(ListIdentities(of: ada.subject))[0]
    _ = try await world.domain.perform(EndSession(ada.id, because: .loggedOut, at: world.now))
    for caller in [ada, guest] {
      #expect(try await link("countess", by: caller) == .callerEnded)
      let unlink = UnlinkIdentity(identity, by: caller.id, notice: world.id(), at: world.now)
      #expect(try await world.domain.perform(unlink) == .callerEnded)
    }
    #expect(try await names(of: ada.subject) == ["ada"])
  }

  @Test("An address that nobody proved goes to whoever has the code that was sent there; a proven one stays")
  func takeOver() async throws {
    let address = "ada@example.com"
    let (bob, ada) = (try await world.account("bob").session, try await world.account("ada").session)
    guard case .linked(let unproven) = try await link(address, by: bob) else {
      Issue.record("a free address was refused")
      return
    }
    #expect(!unproven.isProven)
    #expect(try await link(address, by: ada) == .unproven)
    let code = try await world.code()
    guard case .linked(let proven) = try await link(address, by: ada, code: code) else {
      Issue.record("the owner's code was refused")
      return
    }
    #expect(proven.isProven)
    #expect(try await names(of: bob.subject) == ["bob"])
    #expect(try await link(address, by: bob, code: try await world.code()) == .taken)
    #expect(try await world.notes(.identityReleased).map(\.subject) == [bob.subject])
  }

  @Test("A code verifies an address that was linked without one, once")
  func verify() async throws {
    let ada = try await world.account("ada").session
    _ = try await link("ada@example.com", by: ada)
    let code = try await world.code()
    guard case .already(let identity) = try await link("ada@example.com", by: ada, code: code) else {
      Issue.record("the code was refused")
      return
    }
    #expect(identity.verifiedAt == world.now)
    #expect(try await world.domain.look(ListIdentities(of: ada.subject)).contains(identity))
    #expect(try await link("ada@example.com", by: ada, code: code) == .codeSpent)
    #expect(try await world.notes(.identityVerified).count == 1)
  }

  @Test("R23: what showed the identifier holds once, and a refusal spends none of it")
  func spentOnce() async throws {
    let (ada, bob) = (try await world.account("ada").session, try await world.account("bob").session)
    let (code, challenge) = (try await world.code(), world.challenge())
    _ = try await link("bob@example.com", by: bob, code: try await world.code())
    #expect(try await link("bob@example.com", by: ada, code: code) == .taken)
    #expect(try await link("bob", by: ada, challenge: challenge) == .taken)
    guard case .linked = try await link("ada@example.com", by: ada, code: code),
      case .linked = try await link("countess", by: ada, challenge: challenge)
    else {
      Issue.record("a refusal spent what it was shown")
      return
    }
    #expect(try await link("other@example.com", by: ada, code: code) == .codeSpent)
    #expect(try await link("lovelace", by: ada, challenge: challenge) == .challengeUsed)
  }

  @Test("Forty who link one name at once are one who has it; an account has at most thirty-two")
  func bounds() async throws {
    var callers: [Session] = []
    for number in 0..<40 { callers.append(try await world.account("user\(number)").session) }
    let sessions = callers
    let outcomes = try await withThrowingTaskGroup(of: LinkIdentity.Outcome.self) { group in
      for caller in sessions { group.addTask { try await link("countess", by: caller) } }
      return try await group.reduce(into: [LinkIdentity.Outcome]()) { $0.append($1) }
    }
    #expect(outcomes.filter { $0 == .taken }.count == 39)
    let ada = try await world.account("ada").session
    for number in 1..<32 {
      guard case .linked = try await link("ada\(number)", by: ada) else {
        Issue.record("only \(number) names were linked")
        return
      }
    }
    #expect(try await link("ada32", by: ada) == .full)
  }

  @Test("R44: what a session linked came of it, and of what let the session in")
  func lineage() async throws {
    let ada = try await world.account("ada").session
    try await world.write { rows throws(StorageError) in
      try await rows.lineage.insert(.session(ada.id), cameOf: .code("code"))
    }
    _ = try await link("countess", by: ada)
    let ancestors = try await world.read { rows throws(StorageError) in
      try await rows.lineage.ancestors(of: .identity(.userName, value: "countess"))
    }
    #expect(Set(ancestors) == [.session(ada.id), .code("code")])
  }

  @Test("A stronger hash takes the place of the one that was checked, and of no other")
  func strengthen() async throws {
    let ada = try await world.account("ada").session
    let name = try AccountIdentifier("ada").orThrow()
    let custom = AccountIdentifier.customID(try CustomID("eve-0123456789abcdef").orThrow())
    _ = try await world.domain.perform(
      LinkIdentity(custom, by: ada.id, secretHash: "own", notice: world.id(), at: world.now))
    func strengthen(_ identifier: AccountIdentifier, _ old: String, _ new: String) async throws -> String? {
      try await world.domain.perform(StrengthenSecret(of: identifier, from: old, to: new, at: world.now))
      return try await world.domain.look(FindAccount(for: identifier))?.passwordHash
    }
    #expect(try await strengthen(name, "another", "strong") == "hash of ada")
    #expect(try await strengthen(name, "hash of ada", "strong") == "strong")
    #expect(try await strengthen(custom, "own", "stronger") == "stronger")
    #expect(try await world.domain.look(FindPassword(of: ada.subject)) == "strong")
  }
}
