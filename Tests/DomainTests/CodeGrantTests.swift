import Domain
import LatchkeyModel
import Storage
import Testing

@Suite("What a confirmed code grants, by the rules")
struct CodeGrantTests {
  private let world = World()

  private func issue(
    _ kind: IssueForQr.Kind = .signIn, _ code: String = "code", by confirmer: Session, of subject: SubjectID? = nil,
    provenAt: Timestamp? = nil
  ) async throws -> IssueForQr.Outcome {
    var draft = try world.draft({ if case .transfer = kind { .transfer } else { .qr } }())
    if case .bind(let device, _) = kind { draft.boundKeyThumbprint = device.keyThumbprint }
    return try await world.domain.perform(
      IssueForQr(
        qrSession: code, subject: subject ?? confirmer.subject, confirmedBy: confirmer.id,
        provenAt: provenAt ?? confirmer.authenticatedAt, draft: draft, kind: kind))
  }

  private func session(_ outcome: IssueForQr.Outcome) throws -> Session {
    guard case .issued(let session, _) = outcome else { throw Unexpected() }
    return session
  }

  private func revoke(_ code: String) async throws -> Int {
    try await world.domain.perform(RevokeCode(code, at: world.now))
  }

  @Test("S5: forty grants to one code at once leave one live session, which nobody has confirmed")
  func once() async throws {
    let ada = try await world.account("ada").session
    let sessions = try await withThrowingTaskGroup(of: Session.self) { group in
      for _ in 0..<40 { group.addTask { try session(try await issue(by: ada)) } }
      return try await group.reduce(into: [Session]()) { $0.append($1) }
    }
    var live: [Session] = []
    for session in sessions where try await world.isLive(session.id) { live.append(session) }
    #expect(live.count == 1 && live.allSatisfy { !$0.isConfirmed && $0.method == .qr && $0.subject == ada.subject })
    #expect(world.heard.ended.count == 39 && Set(world.heard.ended.map(\.why)) == [.replaced])
    #expect(try await world.isLive(ada.id))
  }

  @Test(
    "S5: what is asked for in a turn that is over begins and ends nothing, whenever it comes",
    arguments: WorldEngine.allCases)
  func turns(_ engine: WorldEngine) async throws {
    let world = try await engine.world()
    let ada = try await world.account("ada").session
    @Sendable func issue(_ turn: Int64?, by confirmer: SessionID? = nil) async throws -> IssueForQr.Outcome {
      try await world.domain.perform(
        IssueForQr(
          qrSession: "code", subject: ada.subject, confirmedBy: confirmer ?? ada.id, provenAt: ada.authenticatedAt,
          draft: try world.draft(.qr), turn: turn))
    }
    // Forty turns on their way at once: whose answer counts is the last of them.
    let outcomes = try await world.forty { number in (number, try await issue(Int64(number + 1))) }
    let last = try #require(outcomes.filter { $0.1 != .overtaken }.max { $0.0 < $1.0 })
    #expect(last.0 == 39)
    #expect(Set(try await world.live(of: ada.subject).map(\.id)) == [ada.id, try session(last.1).id])
    for turn in [1, 40] as [Int64] { #expect(try await issue(turn) == .overtaken) }
    // A turn in which nothing was granted counts as well.
    #expect(try await issue(42, by: world.id()) == .confirmerGone)
    #expect(try await issue(41) == .overtaken)
    #expect(Set(try await world.live(of: ada.subject).map(\.id)) == [ada.id, try session(last.1).id])
    // A QR service of before says none.
    let untold = try session(try await issue(nil))
    #expect(try await issue(42) == .overtaken)
    let next = try session(try await issue(43))
    #expect(try await !world.isLive(untold.id))
    #expect(Set(try await world.live(of: ada.subject).map(\.id)) == [ada.id, next.id])
    #expect(try await world.isChainWhole())
  }

  @Test("S19: what was revoked ends with all that came of it, and nothing is granted to it later")
  func revoked() async throws {
    let ada = try await world.account("ada").session
    let begun = try session(try await issue(by: ada))
    #expect(try await revoke("code") == 1)
    #expect(try await revoke("code") == 0)
    #expect(try await !world.isLive(begun.id))
    #expect(try await issue(by: ada) == .revoked)
    #expect(try await revoke("early") == 0)
    #expect(try await issue(.signIn, "early", by: ada) == .revoked)
    #expect(world.heard.ended.map(\.why) == [.qrRevoked])
  }

  @Test("Only an account's own, confirmed session grants, and no younger a proof than its token showed")
  func confirmers() async throws {
    let (ada, bob) = (try await world.account("ada").session, try await world.account("bob").session)
    let guest = try await world.guest("key")
    #expect(try await issue(by: ada, of: bob.subject) == .confirmerGone)
    #expect(try await issue(by: guest) == .noAccount)
    #expect(try await issue(by: ada, of: world.id()) == .noAccount)
    let begun = try session(try await issue(by: ada))
    #expect(try await issue(.signIn, "second", by: begun) == .confirmerGone)
    let earlier = ada.authenticatedAt - .seconds(60)
    #expect(try session(try await issue(.signIn, "third", by: ada, provenAt: earlier)).authenticatedAt == earlier)
    func confirmer(_ session: Session, _ code: String) async throws -> FindConfirmer.Outcome {
      try await world.domain.look(FindConfirmer(session.id, of: ada.subject, for: code, at: world.now))
    }
    #expect(try await confirmer(ada, "code") == .live(ada))
    #expect(try await confirmer(bob, "code") == .gone)
    _ = try await revoke("code")
    #expect(try await confirmer(ada, "code") == .revoked)
    _ = try await world.domain.perform(EndSession(ada.id, because: .loggedOut, at: world.now))
    #expect(try await confirmer(ada, "other") == .gone)
    #expect(try await issue(.signIn, "fourth", by: ada) == .confirmerGone)
  }

  @Test("A bound device opens the account by its key until what bound it is revoked; it is of whoever bound it last")
  func bind() async throws {
    let ada = try await world.account("ada", on: "phone")
    let bob = try await world.account("bob", on: "other phone")
    let screen = try world.device("screen")
    _ = try await world.domain.perform(
      RenameDevice("phone", of: ada.subject, to: try DisplayText("Ada's").orThrow(), at: world.now))
    let first = try session(try await issue(.bind(screen, world.id()), by: ada))
    let unlock = try await world.domain.look(FindUnlock(byKey: "screen"))?.unlock
    #expect(unlock?.account == ada.subject && unlock?.binding?.qrSession == "code")
    #expect(unlock?.binding?.confirmedBy.label?.description == "Ada's")
    let ancestors = try await world.read { rows throws(StorageError) in
      try await rows.lineage.ancestors(of: .unlock(.key, key: "screen"))
    }
    #expect(Set(ancestors) == [.code("code"), .session(ada.id)])
    let second = try session(try await issue(.bind(screen, world.id()), "second", by: bob))
    #expect(try await !world.isLive(first.id))
    #expect(try await world.domain.look(FindUnlock(byKey: "screen"))?.unlock.account == bob.subject)
    #expect(world.heard.ended.last?.why == .switchedAway)
    #expect(try await revoke("second") == 1)
    #expect(try await !world.isLive(second.id))
    #expect(try await world.domain.look(FindUnlock(byKey: "screen")) == nil)
  }

  @Test("R44: a bound device that takes a new key still ends with the session that bound it")
  func rotatedBinding() async throws {
    let ada = try await world.account("ada", on: "phone")
    let screen = try session(try await issue(.bind(try world.device("screen"), world.id()), by: ada))
    let rotated = try await world.domain.perform(
      RotateKey(
        KeyReplacement(
          oldKey: "screen", device: try world.device("new key"), challenge: world.challenge(), address: "192.0.2.1",
          now: world.now), by: screen.id))
    guard case .rotated = rotated else { throw Unexpected() }
    #expect(try await world.domain.look(FindUnlock(byKey: "new key"))?.unlock.account == ada.subject)
    _ = try await world.domain.perform(EndSession(ada.id, because: .revoked, at: world.now))
    #expect(try await world.domain.look(FindUnlock(byKey: "new key")) == nil)
    #expect(try await !world.isLive(screen.id))
  }

  @Test("A key that somebody enrolled themselves is not bound to another account, and no account has too many")
  func bindRefused() async throws {
    let ada = try await world.account("ada", on: "phone")
    let bob = try await world.account("bob", on: "other phone")
    _ = try await world.domain.perform(
      EnrolUnlock(
        session: bob.id, kind: .key, keyThumbprint: "screen", secretHash: nil, challenge: world.challenge(),
        notice: world.id(), now: world.now))
    let screen = try world.device("screen")
    #expect(try await issue(.bind(screen, world.id()), by: ada) == .keyTaken)
    for number in 0..<64 {
      _ = try await world.domain.perform(
        EnrolUnlock(
          session: ada.id, kind: .key, keyThumbprint: "key \(number)", secretHash: nil, challenge: world.challenge(),
          notice: world.id(), now: world.now))
    }
    #expect(try await issue(.bind(try world.device("tablet"), world.id()), by: ada) == .tooManyUnlocks)
    let again = try await issue(.bind(try world.device("key 7"), world.id()), by: ada)
    #expect(try session(again).subject == ada.subject)
  }

  @Test("S20: a guest moves by a code and gives its old device up, an account keeps it; what is revoked goes back")
  func transfer() async throws {
    let guest = try await world.guest("old")
    let moved = try session(try await issue(.transfer(try world.device("new")), by: guest))
    // Nobody is left on the old device who could confirm it.
    #expect(moved.subject == guest.subject && moved.isConfirmed)
    #expect(try await !world.isLive(guest.id))
    // Asked for again it goes on from where it is.
    let again = try session(try await issue(.transfer(try world.device("new")), by: guest))
    #expect(try await !world.isLive(moved.id))
    #expect(try await revoke("code") == 1)
    #expect(try await !world.isLive(again.id))
    #expect(try await world.guest("old").subject == guest.subject)
    let ada = try await world.account("ada", on: "phone")
    _ = try session(try await issue(.transfer(try world.device("tablet")), "second", by: ada))
    #expect(try await world.isLive(ada.id))
    let other = try await world.guest("key")
    let merge = SignIn.GuestChoice.merge(world.id(), dueAt: world.now)
    _ = try await world.signIn("ada", as: ada.subject, guest: SignIn.Guest(session: other.id, choice: merge))
    #expect(try await issue(.transfer(try world.device("third")), "third", by: other) == .merging)
  }
}
