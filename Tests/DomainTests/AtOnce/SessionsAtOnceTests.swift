import Domain
import LatchkeyModel
import Storage
import Testing

/// Of forty who ask for the same, as many have it as there is of it (C3).
@Suite("C3: forty who begin, renew or make the same thing at once leave what one after the other leaves", .serialized)
struct SessionsAtOnceTests {
  @Test("C3: a refresh token renews its session once, and a stolen one ends it once", arguments: WorldEngine.allCases)
  func refresh(_ engine: WorldEngine) async throws {
    let world = try await engine.world()
    let session = try await world.guest("key")
    let first = try await world.forty { _ in try await world.refresh(session.id, 1) }
    for outcome in first {
      guard case .refreshed(let renewed) = outcome else {
        Issue.record("a token that was not replaced yet answered \(outcome)")
        continue
      }
      #expect(renewed.family.generation == 2)
    }
    #expect(try await world.session(session.id)?.family.generation == 2)
    _ = try await world.refresh(session.id, 2)
    let stolen = try await world.forty { _ in try await world.refresh(session.id, 1) }
    #expect(stolen.filter { if case .reused = $0 { true } else { false } }.count == 1)
    #expect(stolen.filter { $0 == .ended(.refreshReused) }.count == 39)
    #expect(world.heard.ended.count == 1)
    #expect(try await world.isChainWhole())
  }

  @Test("C3: a device that starts forty times at once has one guest with one session", arguments: WorldEngine.allCases)
  func starts(_ engine: WorldEngine) async throws {
    let world = try await engine.world()
    let sessions = try await world.forty { _ in try await world.guest("key") }
    let guests = Set(sessions.map(\.subject))
    #expect(guests.count == 1)
    #expect(try await world.live(of: sessions[0].subject).count == 1)
    #expect(try await world.domain.look(CountGuests()) == 1)
    #expect(world.heard.ended.count == 39)
    #expect(try await world.isChainWhole())
  }

  @Test(
    "C3: devices that start while their sessions are renewed have one session each, and the one before was renewed once or not",
    arguments: WorldEngine.allCases)
  func startsAndRenewals(_ engine: WorldEngine) async throws {
    let world = try await engine.world()
    for round in 0..<5 {
      var before: [Session] = []
      for device in 0..<8 { before.append(try await world.guest("key \(round) \(device)")) }
      let sessions = before
      // Three renewals and two starts of each.
      let outcomes = try await world.forty { number -> (session: SessionID, Refresh.Outcome?) in
        let session = sessions[number % 8]
        guard number >= 24 else { return (session.id, try await world.refresh(session.id, 1)) }
        let started = try await world.guest("key \(round) \(number % 8)")
        #expect(started.subject == session.subject)
        return (session.id, nil)
      }
      for session in before {
        let live = try await world.live(of: session.subject)
        #expect(live.count == 1 && live.first?.id != session.id)
        let after = try #require(try await world.session(session.id))
        #expect(after.ended?.why == .replaced)
        let renewals = outcomes.filter { $0.session == session.id }.compactMap(\.1)
        let renewed = renewals.filter {
          if case .refreshed(let renewed) = $0 { renewed.family.generation == 2 } else { false }
        }
        #expect(renewed.count + renewals.filter { $0 == .ended(.replaced) }.count == 3)
        #expect(after.family.generation == (renewed.isEmpty ? 1 : 2))
      }
    }
    #expect(try await world.isChainWhole())
  }

  @Test("C3: forty who register one name leave one account, and one guest becomes one", arguments: WorldEngine.allCases)
  func registrations(_ engine: WorldEngine) async throws {
    let world = try await engine.world()
    let names = try await world.forty { _ in try await world.register("ada") }
    #expect(names.filter { $0 == .identifierTaken }.count == 39)
    let guest = try await world.guest("key")
    let promotions = try await world.forty { number in try await world.register("name\(number)", guest: guest.id) }
    #expect(promotions.filter { $0 == .guestGone }.count == 39)
    #expect(try await world.domain.look(ListIdentities(of: guest.subject)).count == 1)
    #expect(try await world.live(of: guest.subject).filter { !$0.isGuest }.count == 1)
  }

  @Test(
    "C3: forty grants of one code leave one live session, and none once it is revoked", arguments: WorldEngine.allCases)
  func grants(_ engine: WorldEngine) async throws {
    let world = try await engine.world()
    let ada = try await world.account("ada").session
    @Sendable func issue(_ code: String) async throws -> IssueForQr.Outcome {
      try await world.domain.perform(
        IssueForQr(
          qrSession: code, subject: ada.subject, confirmedBy: ada.id, provenAt: ada.authenticatedAt,
          draft: try world.draft(.qr)))
    }
    _ = try await world.forty { _ in try await issue("code") }
    #expect(try await world.live(of: ada.subject).count == 2)
    _ = try await world.forty { number in
      if number == 20 { _ = try await world.domain.perform(RevokeCode("other", at: world.now)) }
      return try await issue("other")
    }
    #expect(try await world.live(of: ada.subject).count == 2)
    #expect(try await issue("other") == .revoked)
    // A token of what one code granted takes the place of that session once.
    let granted = try #require(try await world.live(of: ada.subject).first { $0.id != ada.id })
    let taken = try await world.forty { _ in
      try await world.domain.perform(
        SignIn(
          proof: .qrGrant(session: granted.id, provenAt: granted.authenticatedAt), guest: nil,
          draft: try world.draft(.qr)))
    }
    #expect(taken.filter { $0 == .credentialChanged }.count == 39)
    #expect(try await world.live(of: ada.subject).count == 2)
  }

  @Test("C3: of a guest's tickets the newest is kept, and it is spent once", arguments: WorldEngine.allCases)
  func tickets(_ engine: WorldEngine) async throws {
    let world = try await engine.world()
    let ada = try await world.account("ada").session
    let guest = try await world.guest("key")
    let identifier = try AccountIdentifier("ada").orThrow()
    let kept = try await world.forty { number in
      let ticket = LinkTicket(
        hash: [UInt8(number)], guestSession: guest.id, account: ada.subject, authority: ada.authority,
        accountMask: "a***", expiry: world.now + .seconds(60))
      return try await world.domain.perform(
        KeepTicket(
          ticket, for: .password(account: ada.subject, identifier: identifier, hash: "hash of ada"), challenge: nil,
          at: world.now))
    }
    #expect(kept.allSatisfy { $0 == .kept })
    let found = try await world.forty { number in
      try await world.domain.look(FindTicket([UInt8(number)], of: guest.id, at: world.now))
    }.compactMap { $0 }
    #expect(found.count == 1)
    let choice = SignIn.Guest(session: guest.id, choice: .merge(world.id(), dueAt: world.now))
    let spent = try await world.forty { _ in
      try await world.domain.perform(
        SignIn(proof: .ticket(hash: found[0].hash), guest: choice, draft: try world.draft(.password)))
    }
    #expect(spent.filter { if case .signedIn = $0 { true } else { false } }.count == 1)
    #expect(spent.filter { $0 == .ticketInvalid }.count == 39)
  }

  @Test("C3: a guest has one wish, and becomes part of an account once", arguments: WorldEngine.allCases)
  func merges(_ engine: WorldEngine) async throws {
    let world = try await engine.world()
    let ada = try await world.account("ada").session
    let guest = try await world.guest("key")
    let wishes = try await world.forty { _ -> MergeID? in
      let choice = SignIn.Guest(session: guest.id, choice: .merge(world.id(), dueAt: world.now))
      guard case .signedIn(let signedIn) = try await world.signIn("ada", as: ada.subject, guest: choice) else {
        return nil
      }
      return signedIn.merge?.id
    }
    #expect(Set(wishes).count == 1 && wishes[0] != nil)
    let completed = try await world.forty { number in
      try await world.domain.perform(
        CompleteMerge("migration \(number % 2)", of: guest.subject, into: ada.subject, at: world.now))
    }
    #expect(completed.filter { $0 == .already }.count == 39)
    let restored = try await world.forty { _ in
      try await world.domain.perform(RestoreGuest("migration", of: guest.subject, from: ada.subject, at: world.now))
    }
    #expect(restored.filter { $0 == .restored }.count == 1)
    #expect(try await world.isChainWhole())
  }

  @Test(
    "C3: an account has as many unlocks and names as one may have, and keeps its last", arguments: WorldEngine.allCases)
  func limits(_ engine: WorldEngine) async throws {
    let world = try await engine.world()
    let ada = try await world.account("ada", on: "phone")
    @Sendable func enrol(_ key: String) async throws {
      _ = try await world.domain.perform(
        EnrolUnlock(
          session: ada.id, kind: .key, keyThumbprint: key, secretHash: nil, challenge: world.challenge(),
          notice: world.id(), now: world.now))
    }
    for _ in 0..<2 { _ = try await world.forty { _ in try await enrol(String(describing: world.id() as SubjectID)) } }
    #expect(try await world.domain.look(ListUnlocks(of: ada.subject)).count == 64)
    let linked = try await world.forty { number in
      try await world.domain.perform(
        LinkIdentity(try AccountIdentifier("name\(number)").orThrow(), by: ada.id, notice: world.id(), at: world.now))
    }
    #expect(linked.filter { $0 == .full }.count == 9)
    let names = try await world.domain.look(ListIdentities(of: ada.subject))
    #expect(names.count == 32)
    let unlinked = try await world.forty { number in
      try await world.domain.perform(UnlinkIdentity(names[number % 32], by: ada.id, notice: world.id(), at: world.now))
    }
    #expect(unlinked.filter { $0 == .unlinked }.count == 31)
    #expect(try await world.domain.look(ListIdentities(of: ada.subject)).count == 1)
  }

  @Test("C3: what is over goes once, whoever forgets it", arguments: WorldEngine.allCases)
  func forgetting(_ engine: WorldEngine) async throws {
    let world = try await engine.world()
    for number in 0..<20 { _ = try await world.guest("key \(number)") }
    for number in 0..<20 { _ = try await world.guest("key \(number)") }
    world.clock.advance(by: .seconds(3600))
    let counts = try await world.forty { _ in
      try await world.domain.perform(Forget(endedBefore: world.now, at: world.now, limit: 3))
    }
    // The twenty sessions that were replaced, and forty challenges.
    #expect(counts.reduce(0, +) <= 60)
    var left = 0
    repeat {
      left = try await world.domain.perform(Forget(endedBefore: world.now, at: world.now, limit: 100))
    } while left > 0
    #expect(try await world.domain.look(SessionsEnded(since: .init(millisecondsSinceEpoch: 0))).isEmpty)
    #expect(try await world.domain.look(CountGuests()) == 20)
  }
}
