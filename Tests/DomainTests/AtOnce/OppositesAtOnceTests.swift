import Domain
import LatchkeyModel
import Storage
import Testing

/// Somebody ends what somebody else begins at the same moment (C3). Whichever comes first, nothing is left that either
/// order would not leave.
@Suite("C3: what is ended while it begins is ended or never began, on every engine", .serialized)
struct OppositesAtOnceTests {
  /// Runs both, eight of the second kind beside the first.
  private func race<First: Sendable, Second: Sendable>(
    _ first: @escaping @Sendable () async throws -> First, _ second: @escaping @Sendable (Int) async throws -> Second
  ) async throws -> (First, [Second]) {
    async let seconds = withThrowingTaskGroup(of: Second.self) { group in
      for number in 0..<8 { group.addTask { try await second(number) } }
      return try await group.reduce(into: [Second]()) { $0.append($1) }
    }
    async let one = first()
    return (try await one, try await seconds)
  }

  @Test("C3: nobody is left in by a password that was changed", arguments: WorldEngine.allCases)
  func passwords(_ engine: WorldEngine) async throws {
    let world = try await engine.world()
    for round in 0..<10 {
      let name = "ada\(round)"
      let ada = try await world.account(name, on: "phone \(round)")
      let (changed, _) = try await race {
        try await world.domain.perform(
          ChangePassword(
            authority: .session(ada.id), currentHash: "hash of \(name)", newHash: "new", endsOthers: true,
            notice: world.id(),
            address: "", now: world.now))
      } _: { number -> Void in
        if number % 2 == 0 {
          _ = try await world.signIn(name, as: ada.subject)
        } else {
          let guest = try await world.guest("\(name) guest \(number)")
          let ticket = LinkTicket(
            hash: [UInt8(round), UInt8(number)], guestSession: guest.id, account: ada.subject,
            authority: ada.authority, accountMask: "", expiry: world.now + .seconds(60))
          let identifier = try AccountIdentifier(name).orThrow()
          _ = try await world.domain.perform(
            KeepTicket(
              ticket, for: .password(account: ada.subject, identifier: identifier, hash: "hash of \(name)"),
              challenge: nil, at: world.now))
          _ = try await world.domain.perform(
            SignIn(
              proof: .ticket(hash: ticket.hash), guest: SignIn.Guest(session: guest.id, choice: .leave),
              draft: try world.draft(.password)))
        }
      }
      guard case .changed = changed else { throw Unexpected() }
      #expect(try await world.live(of: ada.subject).map(\.id) == [ada.id])
    }
    #expect(try await world.isChainWhole())
  }

  @Test("C3: of an account that is deleted nothing is left, whoever uses it meanwhile", arguments: WorldEngine.allCases)
  func deletions(_ engine: WorldEngine) async throws {
    let world = try await engine.world()
    for round in 0..<10 {
      let name = "ada\(round)"
      let ada = try await world.account(name, on: "phone \(round)")
      _ = try await race {
        try await world.domain.perform(
          DeleteSubject(
            subject: ada.subject, authority: .account(ada.id, world.id()), address: "", now: world.now,
            purgeDueAt: world.now))
      } _: { number -> Void in
        switch number % 4 {
        case 0: _ = try await world.signIn(name, as: ada.subject)
        case 1:
          let other = try AccountIdentifier("\(name)other\(number)").orThrow()
          _ = try await world.domain.perform(LinkIdentity(other, by: ada.id, notice: world.id(), at: world.now))
        case 2:
          _ = try await world.domain.perform(
            EnrolUnlock(
              session: ada.id, kind: .key, keyThumbprint: "\(name) key \(number)", secretHash: nil,
              challenge: world.challenge(), notice: world.id(), now: world.now))
        default:
          _ = try await world.domain.perform(
            IssueForQr(
              qrSession: "code \(name) \(number)", subject: ada.subject, confirmedBy: ada.id,
              provenAt: ada.authenticatedAt, draft: try world.draft(.qr)))
        }
      }
      #expect(try await world.live(of: ada.subject).isEmpty)
      #expect(try await world.domain.look(ListIdentities(of: ada.subject)).isEmpty)
      #expect(try await world.domain.look(ListUnlocks(of: ada.subject)).isEmpty)
    }
  }

  @Test("C3: an unused guest that comes back is not deleted, or does not come back", arguments: WorldEngine.allCases)
  func unused(_ engine: WorldEngine) async throws {
    let world = try await engine.world()
    for round in 0..<10 {
      let guest = try await world.guest("key \(round)")
      world.clock.advance(by: .seconds(1800))
      let before = world.now
      let (deleted, refreshed) = try await race {
        try await world.domain.perform(
          DeleteSubject(
            subject: guest.subject, authority: .unused(before: before), now: world.now, purgeDueAt: world.now))
      } _: { _ in
        try await world.refresh(guest.id, 1)
      }
      let cameBack = refreshed.contains { if case .refreshed = $0 { true } else { false } }
      let wasDeleted = if case .deleted = deleted { true } else { false }
      #expect(cameBack != wasDeleted)
      #expect(try await world.isLive(guest.id) == cameBack)
    }
  }

  @Test("C3: a guest that becomes an account starts as that guest no more", arguments: WorldEngine.allCases)
  func promotions(_ engine: WorldEngine) async throws {
    let world = try await engine.world()
    for round in 0..<10 {
      let guest = try await world.guest("key \(round)")
      _ = try await race {
        try await world.register("ada\(round)", guest: guest.id)
      } _: { _ in
        try await world.startGuest("key \(round)")
      }
      let live = try await world.live(of: guest.subject)
      let subject = try await world.domain.look(FindSubject(guest.subject))
      #expect(live.allSatisfy { $0.isGuest == subject?.isGuest })
    }
  }

  @Test("C3: who is kept out is not let in meanwhile", arguments: WorldEngine.allCases)
  func disabled(_ engine: WorldEngine) async throws {
    let world = try await engine.world()
    for round in 0..<10 {
      let ada = try await world.account("ada\(round)").session
      let guest = try await world.guest("key \(round)")
      for subject in [ada.subject, guest.subject] {
        _ = try await race {
          try await world.domain.perform(SetDisabled(true, subject, detail: "", at: world.now))
        } _: { _ -> Void in
          if subject == ada.subject {
            _ = try await world.signIn("ada\(round)", as: ada.subject)
          } else {
            _ = try await world.startGuest("key \(round)")
          }
        }
        #expect(try await world.live(of: subject).isEmpty)
      }
    }
  }

  @Test(
    "C3: what came of a revoked session ends with it, also what comes of it meanwhile", arguments: WorldEngine.allCases)
  func descendants(_ engine: WorldEngine) async throws {
    let world = try await engine.world()
    for round in 0..<10 {
      let ada = try await world.account("ada\(round)").session
      @Sendable func grant(_ code: String, by confirmer: SessionID) async throws -> Session? {
        let outcome = try await world.domain.perform(
          IssueForQr(
            qrSession: "\(code) \(round)", subject: ada.subject, confirmedBy: confirmer,
            provenAt: ada.authenticatedAt, draft: try world.draft(.qr)))
        if case .issued(let session, _) = outcome { return session }
        return nil
      }
      let screen = try await grant("screen", by: ada.id).orThrow()
      _ = try await world.domain.perform(ConfirmSession(screen.id, by: ada.id, at: world.now))
      _ = try await race {
        try await world.domain.perform(EndSession(ada.id, because: .revoked, at: world.now))
      } _: { number -> Void in
        let begun = try await grant("code \(number)", by: screen.id)
        if let begun { _ = try await grant("next \(number)", by: begun.id) }
      }
      #expect(try await world.live(of: ada.subject).isEmpty)
    }
  }

  @Test("C3: a guest that became part of an account leaves no progress behind", arguments: WorldEngine.allCases)
  func guides(_ engine: WorldEngine) async throws {
    let world = try await engine.world()
    let step = try GuideID("one").orThrow()
    let guide = try GuideDefinition(
      id: GuideID("welcome").orThrow(), version: 1,
      steps: [
        GuideStep(
          id: step, page: "home", target: "button", messageKey: "one", isReversed: false, sinceVersion: 1)
      ]
    ).orThrow()
    let ada = try await world.account("ada").session
    for round in 0..<10 {
      let guest = try await world.guest("key \(round)")
      _ = try await race {
        try await world.domain.perform(
          CompleteMerge("migration", of: guest.subject, into: ada.subject, at: world.now))
      } _: { _ in
        try await world.domain.perform(
          ReportStep(
            session: guest.id, guide: guide, step: step, outcome: .done, expectedRevision: 0, now: world.now))
      }
      #expect(try await world.domain.look(FindGuideProgress(of: guest.subject)).isEmpty)
    }
  }

  @Test("C3: everybody's sessions end, whoever renews theirs meanwhile", arguments: WorldEngine.allCases)
  func everybody(_ engine: WorldEngine) async throws {
    let world = try await engine.world()
    var sessions: [Session] = []
    for number in 0..<40 { sessions.append(try await world.guest("key \(number)")) }
    let begun = sessions
    let (ended, _) = try await race {
      var count = 0
      while true {
        let ended = try await world.domain.perform(
          EndEverybodysSessions(begunUntil: world.now, limit: 7, at: world.now))
        count += ended
        if ended < 7 { return count }
      }
    } _: { number in
      for session in begun[number * 5..<number * 5 + 5] { _ = try await world.refresh(session.id, 1) }
    }
    #expect(ended == 40)
    for session in begun { #expect(try await !world.isLive(session.id)) }
    #expect(try await world.isChainWhole())
  }
}
