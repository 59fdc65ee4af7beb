import Domain
import LatchkeyModel
import Storage
import Testing

/// Sessions end while they do this and that (C3).
@Suite("C3: sessions that are ended end with what they began, whichever comes first", .serialized)
struct EndingsAtOnceTests {
  private static func enrol(_ key: String, by session: SessionID, in world: World) async throws {
    _ = try await world.domain.perform(
      EnrolUnlock(
        session: session, kind: .key, keyThumbprint: key, secretHash: nil, challenge: world.challenge(),
        notice: world.id(), now: world.now))
  }

  private static func grant(_ code: String, by confirmer: Session, in world: World) async throws -> Session? {
    let outcome = try await world.domain.perform(
      IssueForQr(
        qrSession: code, subject: confirmer.subject, confirmedBy: confirmer.id, provenAt: confirmer.authenticatedAt,
        draft: try world.draft(.qr)))
    if case .issued(let session, _) = outcome { return session }
    return nil
  }

  @Test("C3: a session is confirmed once and revoked once", arguments: WorldEngine.allCases)
  func confirmations(_ engine: WorldEngine) async throws {
    let world = try await engine.world()
    for round in 0..<5 {
      let ada = try await world.account("ada\(round)").session
      let screen = try await Self.grant("code \(round)", by: ada, in: world).orThrow()
      let outcomes = try await world.forty { number -> (isEnd: Bool, outcome: OwnSessionOutcome) in
        if number % 2 == 0 {
          return (true, try await world.domain.perform(RevokeSession(screen.id, by: ada.id, at: world.now)))
        }
        return (false, try await world.domain.perform(ConfirmSession(screen.id, by: ada.id, at: world.now)))
      }
      let revoked = outcomes.filter { $0.isEnd && $0.outcome == .changed }.count
      let confirmed = outcomes.filter { !$0.isEnd && $0.outcome == .changed }.count
      let told = world.heard.all.withLock { $0.flatMap(\.confirmed) }.filter { $0 == screen.id }.count
      let ended = world.heard.ended.filter { $0.id == screen.id }.count
      let live = try await world.live(of: ada.subject)
      #expect(revoked == 1 && ended == 1)
      #expect(confirmed <= 1 && told == confirmed)
      #expect(live.map(\.id) == [ada.id])
    }
    let isWhole = try await world.isChainWhole()
    #expect(isWhole)
  }

  @Test("C3: of sessions that end each other one is left, with what it enrolled", arguments: WorldEngine.allCases)
  func eachOther(_ engine: WorldEngine) async throws {
    let world = try await engine.world()
    for round in 0..<3 {
      let name = "ada\(round)"
      var begun = [try await world.account(name, on: "\(name) 0")]
      for device in 1..<8 {
        let guest = SignIn.Guest(session: try await world.guest("\(name) \(device)").id, choice: .leave)
        guard case .signedIn(let signedIn) = try await world.signIn(name, as: begun[0].subject, guest: guest) else {
          throw Unexpected()
        }
        begun.append(signedIn.session)
      }
      let sessions = begun
      // Each enrols an unlock, and then ends each of the seven others.
      _ = try await world.forty { number -> Void in
        let (own, step) = (sessions[number % 8], number / 8)
        if step == 0 { return try await Self.enrol("\(name) finger \(number)", by: own.id, in: world) }
        for offset in [step, step + 4] where offset < 8 {
          let other = sessions[(number + offset) % 8]
          switch step {
          case 1, 2: _ = try await world.domain.perform(RevokeSession(other.id, by: own.id, at: world.now))
          case 3:
            let key = try other.device.keyThumbprint.orThrow()
            _ = try await world.domain.perform(RemoveDevice(key, by: own.id, at: world.now))
          default:
            _ = try await world.domain.perform(
              LogOut(session: own.id, reach: .others, nextGuest: nil, now: world.now))
          }
        }
      }
      let live = try await world.live(of: sessions[0].subject)
      let unlocks = try await world.domain.look(ListUnlocks(of: sessions[0].subject))
      let ended = world.heard.ended.filter { $0.subject == sessions[0].subject }
      #expect(live.count == 1)
      #expect(unlocks.map(\.deviceKey) == live.compactMap(\.device.keyThumbprint))
      let told = Set(ended.map(\.id))
      let others = Set(sessions.map(\.id)).subtracting(live.map(\.id))
      // With them the guest's that the account began as.
      #expect(ended.count == told.count && told.isSuperset(of: others) && told.isDisjoint(with: live.map(\.id)))
    }
    let isWhole = try await world.isChainWhole()
    #expect(isWhole)
  }

  @Test(
    "C3: whoever is signed out everywhere is in nowhere, whatever their sessions do meanwhile",
    arguments: WorldEngine.allCases)
  func everywhere(_ engine: WorldEngine) async throws {
    let world = try await engine.world()
    for round in 0..<4 {
      let name = "ada\(round)"
      let ada = try await world.account(name, on: "phone \(round)")
      let proof = SignIn.Proof.password(
        account: ada.subject, identifier: try AccountIdentifier(name).orThrow(), hash: "hash of \(name)")
      _ = try await world.forty { number -> Void in
        switch number % 4 {
        case _ where number == 5 + 10 * round && round % 2 == 0:
          _ = try await world.domain.perform(
            LogOut(session: ada.id, reach: .global, nextGuest: nil, now: world.now))
        case _ where number == 5 + 10 * round:
          _ = try await world.domain.perform(EndSessionsOf(ada.subject, detail: "", at: world.now))
        case 0: _ = try await Self.grant("code \(name) \(number)", by: ada, in: world)
        case 1: try await Self.enrol("\(name) finger \(number)", by: ada.id, in: world)
        case 2: try await Self.move(ada, by: [UInt8(round), UInt8(number)], in: world)
        default:
          _ = try await world.domain.perform(
            StepUp(
              session: ada.id, proof: .credential(proof), challenge: nil, lifetimes: world.lifetimes, address: "",
              now: world.now))
        }
      }
      let live = try await world.live(of: ada.subject)
      let unlocks = try await world.domain.look(ListUnlocks(of: ada.subject))
      #expect(live.isEmpty)
      // Somebody who runs the service takes no unlocks away.
      #expect(unlocks.isEmpty || round % 2 == 1)
    }
    let isWhole = try await world.isChainWhole()
    #expect(isWhole)
  }

  /// Offers an account to another device, which takes the offer.
  private static func move(_ session: Session, by code: [UInt8], in world: World) async throws {
    let offer = TransferOffer(
      id: world.id(), codeHash: code + [1], referenceHash: code + [2], consent: .kept, address: "",
      needsSameNetwork: false, createdAt: world.now, expiry: world.now + .seconds(600))
    _ = try await world.domain.perform(
      CreateTransfer(offer, by: session.id, provenAt: session.authenticatedAt))
    _ = try await world.domain.perform(
      RedeemTransfer(
        secretHash: offer.codeHash, device: try world.device("tablet \(offer.id)"), challenge: world.challenge(),
        keepsOld: true, isSameNetwork: { _, _ in true }, draft: try world.draft(.transfer)))
  }

  @Test(
    "C3: who is kept out and let in again at once is one of them, and on record so", arguments: WorldEngine.allCases)
  func keptOut(_ engine: WorldEngine) async throws {
    let world = try await engine.world()
    for round in 0..<4 {
      let key = "key \(round)"
      let guest = try await world.guest(key).subject
      _ = try await world.forty { number -> Void in
        switch number % 4 {
        case 0: _ = try await world.domain.perform(SetDisabled(true, guest, detail: "", at: world.now))
        case 1: _ = try await world.domain.perform(SetDisabled(false, guest, detail: "", at: world.now))
        case 2: _ = try await world.startGuest(key)
        default:
          try await world.domain.perform(NoteExport(of: guest, recordsVersion: Int64(number), at: world.now))
        }
      }
      let standing = try await world.domain.look(FindStanding(of: guest)).orThrow()
      let live = try await world.live(of: guest)
      let out = try await world.notes(.subjectDisabled).filter { $0.subject == guest }.count
      let back = try await world.notes(.subjectEnabled).filter { $0.subject == guest }.count
      let exports = try await world.notes(.guestExported).filter { $0.subject == guest }.count
      #expect(out - back == (standing.subject.isDisabled ? 1 : 0))
      #expect(live.count <= (standing.subject.isDisabled ? 0 : 1))
      #expect(exports == 10 && standing.exportedAt == world.now)
    }
    let isWhole = try await world.isChainWhole()
    #expect(isWhole)
  }
}
