import Domain
import LatchkeyModel
import Storage
import Testing

@Suite("What owners change of their accounts, by the rules")
struct OwnAccountTests {
  private let world = World()

  private func change(
    _ authority: ChangePassword.Authority, from current: String? = nil, to new: String?, endsOthers: Bool = true
  ) async throws -> ChangePassword.Outcome {
    try await world.domain.perform(
      ChangePassword(
        authority: authority, currentHash: current, newHash: new, endsOthers: endsOthers, notice: world.id(),
        address: "192.0.2.1", now: world.now))
  }

  private func link(_ text: String, by caller: Session, code: OneTimeCode? = nil) async throws {
    let identifier = try AccountIdentifier(text).orThrow()
    _ = try await world.domain.perform(
      LinkIdentity(identifier, by: caller.id, code: code, notice: world.id(), at: world.now))
  }

  @Test("The password that was checked must still be the account's; of forty changes at once one is made")
  func compareAndChange() async throws {
    let ada = try await world.account("ada").session
    let caller = ChangePassword.Authority.session(ada.id)
    #expect(try await change(caller, from: "another", to: "new") == .stale)
    #expect(try await change(caller, from: nil, to: "new") == .stale)
    let outcomes = try await withThrowingTaskGroup(of: ChangePassword.Outcome.self) { group in
      for number in 0..<40 { group.addTask { try await change(caller, from: "hash of ada", to: "new \(number)") } }
      return try await group.reduce(into: [ChangePassword.Outcome]()) { $0.append($1) }
    }
    #expect(outcomes.filter { $0 == .stale }.count == 39)
    #expect(outcomes.contains(.changed(of: ada.subject, sessionsEnded: 0)))
    _ = try await world.domain.perform(EndSession(ada.id, because: .loggedOut, at: world.now))
    #expect(try await change(caller, to: "late") == .callerEnded)
    let guest = try await world.guest("key")
    #expect(try await change(.session(guest.id), to: "guest's") == .callerEnded)
  }

  @Test("A change ends the other sessions, their unlocks, tickets and offers, unless the owner keeps them")
  func endsOthers() async throws {
    let ada = try await world.account("ada", on: "phone")
    guard case .signedIn(let other) = try await world.signIn("ada", as: ada.subject) else { throw Unexpected() }
    let offer = TransferRecord(
      offer: TransferOffer(
        id: world.id(), codeHash: [1], referenceHash: [2], consent: .either, address: "", needsSameNetwork: false,
        createdAt: world.now, expiry: world.now + .seconds(60)),
      subject: ada.subject, session: other.session.id, triesLeft: 5)
    let unlocks = ["phone", "laptop"].map { device in
      Unlock(
        kind: .key, keyThumbprint: "finger on \(device)", account: ada.subject, deviceKey: device, secretHash: nil,
        enrolledAt: world.now)
    }
    try await world.write { rows throws(StorageError) in
      try await rows.transfers.put(offer)
      for unlock in unlocks { try await rows.unlocks.put(unlock, triesLeft: 10) }
    }
    let caller = ChangePassword.Authority.session(ada.id)
    #expect(
      try await change(caller, from: "hash of ada", to: "second", endsOthers: false)
        == .changed(of: ada.subject, sessionsEnded: 0))
    #expect(try await world.isLive(other.session.id))
    #expect(
      try await change(caller, from: "second", to: "third") == .changed(of: ada.subject, sessionsEnded: 1))
    #expect(try await world.isLive(ada.id))
    #expect(try await world.domain.look(ListUnlocks(of: ada.subject)).map(\.deviceKey) == ["phone"])
    #expect(try await world.read { rows throws(StorageError) in try await rows.transfers.find([1]) } == nil)
    #expect(world.heard.ended.last?.why == .loggedOut)
    #expect(try await world.notes(.passwordChanged).map(\.session) == [ada.id, ada.id])
  }

  @Test("The last way in stays: a password goes only where a proven address, a provider or another secret is left")
  func lastWayIn() async throws {
    let ada = try await world.account("ada").session
    let caller = ChangePassword.Authority.session(ada.id)
    try await link("ada@example.com", by: ada)
    #expect(try await change(caller, from: "hash of ada", to: nil) == .lastWayIn)
    #expect(try await world.domain.look(FindPassword(of: ada.subject)) == "hash of ada")
    try await link("ada@example.com", by: ada, code: try await world.code())
    #expect(
      try await change(caller, from: "hash of ada", to: nil) == .changed(of: ada.subject, sessionsEnded: 0))
    #expect(try await world.domain.look(FindPassword(of: ada.subject)) == nil)
    #expect(try await change(caller, to: "again") == .changed(of: ada.subject, sessionsEnded: 0))
    let bob = try await world.account("bob").session
    let own = AccountIdentifier.customID(try CustomID("eve-0123456789abcdef").orThrow())
    _ = try await world.domain.perform(
      LinkIdentity(own, by: bob.id, secretHash: "own", notice: world.id(), at: world.now))
    #expect(
      try await change(.session(bob.id), from: "hash of bob", to: nil) == .changed(of: bob.subject, sessionsEnded: 0))
  }

  @Test("A code to a proven address recovers the account once: every session ends, but not of whoever is kept out")
  func recovery() async throws {
    let address = try AccountIdentifier("ada@example.com").orThrow()
    let ada = try await world.account("ada").session
    try await link("ada@example.com", by: ada)
    let code = try await world.code()
    func recover(_ account: SubjectID) async throws -> ChangePassword.Outcome {
      try await change(.code(account, address, code), to: "recovered")
    }
    #expect(try await recover(ada.subject) == .codeSpent)
    try await link("ada@example.com", by: ada, code: try await world.code())
    #expect(try await recover(world.id()) == .codeSpent)
    #expect(try await recover(ada.subject) == .changed(of: ada.subject, sessionsEnded: 1))
    #expect(try await recover(ada.subject) == .codeSpent)
    #expect(try await !world.isLive(ada.id))
    #expect(try await world.notes(.passwordChanged).last?.detail == "recovered by \(address.mask)")
  }

  @Test("An address of the caller's own account is verified by a code, which is spent also where it was before")
  func verify() async throws {
    let (ada, bob) = (try await world.account("ada").session, try await world.account("bob").session)
    try await link("ada@example.com", by: ada)
    let address = try AccountIdentifier("ada@example.com").orThrow()
    func verify(_ caller: Session, _ code: OneTimeCode) async throws -> VerifyIdentifier.Outcome {
      try await world.domain.perform(VerifyIdentifier(address, by: caller.id, code: code, at: world.now))
    }
    let (first, second) = (try await world.code(), try await world.code())
    #expect(try await verify(bob, first) == .notFound)
    #expect(try await verify(ada, first) == .verified)
    #expect(try await verify(ada, first) == .codeSpent)
    #expect(try await verify(ada, second) == .already)
    #expect(try await verify(ada, second) == .codeSpent)
    #expect(try await world.notes(.identityVerified).count == 1)
    _ = try await world.domain.perform(EndSession(ada.id, because: .loggedOut, at: world.now))
    #expect(try await verify(ada, try await world.code()) == .callerEnded)
  }

  @Test("A profile is its owner's to write, as long as they are signed in")
  func profile() async throws {
    let (ada, guest) = (try await world.account("ada").session, try await world.guest("key"))
    func rename(_ caller: Session, _ name: String) async throws -> Profile? {
      try await world.domain.perform(
        UpdateProfile(by: caller.id, at: world.now) { $0.nickname = Nickname(name) })
    }
    #expect(try await rename(ada, "Ada")?.nickname?.description == "Ada")
    #expect(try await world.domain.look(FindSubject(ada.subject))?.profile.nickname?.description == "Ada")
    #expect(try await rename(guest, "Guest") == nil)
    _ = try await world.domain.perform(EndSession(ada.id, because: .loggedOut, at: world.now))
    #expect(try await rename(ada, "Late") == nil)
  }
}
