import Domain
import LatchkeyModel
import Storage
import Testing

@Suite("Moving to another device, by the rules")
struct TransferTests {
  private let world = World()

  private func offer(
    _ code: UInt8, consent: OldDeviceConsent = .either, sameNetwork: Bool = false
  ) -> TransferOffer {
    TransferOffer(
      id: world.id(), codeHash: [code, 1], referenceHash: [code, 2], consent: consent, address: "192.0.2.1",
      needsSameNetwork: sameNetwork, createdAt: world.now, expiry: world.now + .seconds(600))
  }

  private func create(
    _ offer: TransferOffer, by caller: Session, provenAt: Timestamp? = nil
  ) async throws -> CreateTransfer.Outcome {
    try await world.domain.perform(
      CreateTransfer(offer, by: caller.id, provenAt: provenAt ?? caller.authenticatedAt))
  }

  private func redeem(
    _ code: UInt8, on key: String, challenge: UsedChallenge? = nil, keepsOld: Bool = false, sameNetwork: Bool = true
  ) async throws -> RedeemTransfer.Outcome {
    try await world.domain.perform(
      RedeemTransfer(
        secretHash: [code, 1], device: try world.device(key), challenge: challenge ?? world.challenge(),
        keepsOld: keepsOld, isSameNetwork: { _, _ in sameNetwork }, draft: try world.draft(.transfer)))
  }

  @Test("Forty devices present one code at once: one has the guest, which is on its old device no more")
  func guest() async throws {
    let guest = try await world.guest("old")
    #expect(try await create(offer(1), by: guest) == .offered)
    let outcomes = try await withThrowingTaskGroup(of: RedeemTransfer.Outcome.self) { group in
      for number in 0..<40 { group.addTask { try await redeem(1, on: "new \(number)") } }
      return try await group.reduce(into: [RedeemTransfer.Outcome]()) { $0.append($1) }
    }
    #expect(outcomes.filter { $0 == .unknown }.count == 39)
    let moved = outcomes.compactMap { if case .moved(let moved) = $0 { moved } else { nil } }
    #expect(moved.map(\.session.subject) == [guest.subject] && moved.map(\.sessionsEnded) == [1])
    #expect(try await !world.isLive(guest.id))
    #expect(world.heard.ended.map(\.why) == [.transferred])
    #expect(try await world.guest("old").subject != guest.subject)
    let key = moved[0].session.device.keyThumbprint ?? ""
    #expect(try await world.guest(key).subject == guest.subject)
    #expect(try await world.notes(.subjectMoved).map(\.detail) == ["old device revoked"])
  }

  @Test("The same device with the same challenge is answered the same while the offer would hold; nobody else is")
  func again() async throws {
    let guest = try await world.guest("old")
    _ = try await create(offer(1), by: guest)
    let challenge = world.challenge()
    let first = try await redeem(1, on: "new", challenge: challenge)
    #expect(try await redeem(1, on: "new", challenge: challenge) == first)
    #expect(try await redeem(1, on: "new") == .unknown)
    #expect(try await redeem(1, on: "other", challenge: challenge) == .unknown)
    world.clock.advance(by: .seconds(600))
    #expect(try await redeem(1, on: "new", challenge: challenge) == .unknown)
  }

  @Test("An account's new device has its session; the old one stays where that was agreed, and goes where it was not")
  func account() async throws {
    let ada = try await world.account("ada", on: "phone")
    _ = try await create(offer(1, consent: .kept), by: ada)
    #expect(try await redeem(1, on: "tablet", keepsOld: false) == .notAgreed)
    guard case .moved(let kept) = try await redeem(1, on: "tablet", keepsOld: true) else {
      Issue.record("what was agreed was refused")
      return
    }
    #expect(kept.sessionsEnded == 0 && !kept.session.isConfirmed && kept.session.authenticatedAt == ada.authenticatedAt)
    #expect(try await world.isLive(ada.id))
    _ = try await create(offer(2, consent: .revoked), by: ada)
    guard case .moved(let other) = try await redeem(2, on: "laptop") else {
      Issue.record("what was agreed was refused")
      return
    }
    #expect(other.sessionsEnded == 1)
    #expect(try await !world.isLive(ada.id))
    let last = try await world.read { rows throws(StorageError) in try await rows.devices.find("laptop")?.lastAccount }
    #expect(last == ada.subject)
    let ancestors = try await world.read { rows throws(StorageError) in
      try await rows.lineage.ancestors(of: .session(other.session.id))
    }
    #expect(ancestors.contains(.session(ada.id)) && ancestors.count == 2)
  }

  @Test("A guest that moves to a device with one of its own takes its place, and says whose it was")
  func displaces() async throws {
    let (guest, other) = (try await world.guest("old"), try await world.guest("new"))
    _ = try await create(offer(1), by: guest)
    guard case .moved(let moved) = try await redeem(1, on: "new") else { throw Unexpected() }
    #expect(moved.previousSubject == other.subject)
    #expect(try await !world.isLive(other.id))
    #expect(world.heard.ended.map(\.why) == [.switchedAway, .transferred])
  }

  @Test("What is presented wrongly five times is void; what is refused for other reasons costs no try and no challenge")
  func tries() async throws {
    let guest = try await world.guest("old")
    _ = try await create(offer(1, consent: .revoked, sameNetwork: true), by: guest)
    let challenge = world.challenge()
    for _ in 0..<9 { #expect(try await redeem(1, on: "old", challenge: challenge) == .sameDevice) }
    for _ in 0..<2 { #expect(try await redeem(1, on: "new", challenge: challenge, keepsOld: true) == .notAgreed) }
    for _ in 0..<2 {
      #expect(try await redeem(1, on: "new", challenge: challenge, sameNetwork: false) == .otherNetwork)
    }
    guard case .moved = try await redeem(1, on: "new", challenge: challenge) else {
      Issue.record("the fifth try was refused")
      return
    }
    let again = try await world.guest("old")
    _ = try await create(offer(2, sameNetwork: true), by: again)
    #expect(try await redeem(2, on: "third", challenge: challenge) == .challengeUsed)
    for _ in 0..<5 { #expect(try await redeem(2, on: "third", sameNetwork: false) == .otherNetwork) }
    #expect(try await redeem(2, on: "third") == .unknown)
  }

  @Test("Only a confirmed session, by its newest proof, offers somebody who is not on the way into an account")
  func refusals() async throws {
    let ada = try await world.account("ada", on: "phone")
    _ = try await create(offer(1, consent: .kept), by: ada)
    guard case .moved(let moved) = try await redeem(1, on: "tablet", keepsOld: true) else { throw Unexpected() }
    #expect(try await create(offer(2), by: moved.session) == .unconfirmed)
    #expect(try await create(offer(2), by: ada, provenAt: ada.authenticatedAt - .seconds(60)) == .tokenOutdated)
    let guest = try await world.guest("key")
    _ = try await create(offer(3), by: guest)
    let merge = SignIn.GuestChoice.merge(world.id(), dueAt: world.now)
    _ = try await world.signIn("ada", as: ada.subject, guest: SignIn.Guest(session: guest.id, choice: merge))
    #expect(try await create(offer(4), by: guest) == .merging)
    #expect(try await redeem(3, on: "new") == .merging)
    _ = try await world.domain.perform(EndSession(ada.id, because: .loggedOut, at: world.now))
    #expect(try await create(offer(5), by: ada) == .callerEnded)
  }

  @Test("An offer is found while it can be redeemed, and taken back by its own subject; a newer one voids it")
  func cancel() async throws {
    let (guest, other) = (try await world.guest("old"), try await world.guest("other"))
    let (first, second) = (offer(1), offer(2))
    func find(_ code: UInt8) async throws -> StoredTransfer? {
      try await world.domain.look(FindTransfer([code, 2], at: world.now))
    }
    func cancel(_ offer: TransferOffer, of subject: SubjectID) async throws -> Bool {
      try await world.domain.perform(CancelTransfer(offer.id, of: subject, at: world.now))
    }
    _ = try await create(first, by: guest)
    let found = try await find(1)
    #expect(found?.offer == first && found?.isGuest == true && found?.from == guest)
    _ = try await create(second, by: guest)
    #expect(try await find(1) == nil)
    #expect(try await !cancel(second, of: other.subject))
    #expect(try await cancel(second, of: guest.subject))
    #expect(try await !cancel(second, of: guest.subject))
    #expect(try await redeem(2, on: "new") == .unknown)
    _ = try await create(offer(3), by: guest)
    _ = try await world.domain.perform(EndSession(guest.id, because: .loggedOut, at: world.now))
    #expect(try await find(3) == nil)
    #expect(try await redeem(3, on: "new") == .unknown)
    #expect(try await world.notes(.transferOffered).count == 3)
  }
}
