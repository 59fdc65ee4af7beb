import Domain
import LatchkeyModel
import Storage
import Testing

/// Devices get other keys, other guests and other people's sessions at the same moment (C3).
@Suite("C3: a device is one guest's at a time, and whoever moves is moved once", .serialized)
struct DevicesAtOnceTests {
  private static func replacement(of old: String, by new: String, in world: World) throws -> KeyReplacement {
    KeyReplacement(
      oldKey: old, device: try world.device(new), challenge: world.challenge(), address: "", now: world.now)
  }

  @Test("C3: a device's key is replaced once, with all who use it", arguments: WorldEngine.allCases)
  func rotations(_ engine: WorldEngine) async throws {
    let world = try await engine.world()
    for round in 0..<4 {
      let key = "key \(round)"
      let ada = try await world.account("ada\(round)", on: key)
      let guest = try await world.guest(key).subject
      let outcomes = try await world.forty { number -> (number: Int, outcome: RotateKey.Outcome)? in
        if number % 4 > 0 {
          _ = try await world.guest(key)
          return nil
        }
        let replacement = try Self.replacement(of: key, by: "\(key) \(number)", in: world)
        return (number, try await world.domain.perform(RotateKey(replacement, by: ada.id)))
      }.compactMap { $0 }
      let refused = outcomes.filter { $0.outcome == .otherDevice }.map { $0.number }
      let rotated = outcomes.filter { $0.outcome != .otherDevice }
      try #require(rotated.count == 1)
      guard case .rotated = rotated[0].outcome else { throw Unexpected() }
      let new = "\(key) \(rotated[0].number)"
      let (moved, left) = try await world.read { rows throws(StorageError) in
        (try await rows.devices.find(new), try await rows.devices.find(key))
      }
      let strays = try await world.read { rows throws(StorageError) -> Int in
        var strays = 0
        for number in refused where try await rows.devices.find("\(key) \(number)") != nil { strays += 1 }
        return strays
      }
      let own = try await world.live(of: ada.subject).map { $0.device.keyThumbprint }
      let guests = try await world.live(of: guest).map { $0.device.keyThumbprint }
      #expect(own == [new] && guests == [new])
      #expect(moved?.guest == guest && moved?.lastAccount == ada.subject)
      #expect(left?.guest != guest && left?.lastAccount == nil)
      #expect(refused.count == 9 && strays == 0)
      // Whoever started with the old key since has begun anew.
      if let other = left?.guest {
        let begun = try await world.live(of: other).map { $0.device.keyThumbprint }
        #expect(begun == [key])
      }
    }
    let isWhole = try await world.isChainWhole()
    #expect(isWhole)
  }

  @Test("C3: that two devices hold one key is resolved once", arguments: WorldEngine.allCases)
  func clones(_ engine: WorldEngine) async throws {
    let world = try await engine.world()
    for round in 0..<4 {
      let key = "key \(round)"
      guard case .started(let first) = try await world.startGuest(key, counter: 1),
        case .cloned = try await world.startGuest(key, counter: 1)
      else { throw Unexpected() }
      let guest = first.session.subject
      let outcomes = try await world.forty { number -> (isTransfer: Bool, outcome: ResolveClone.Outcome)? in
        if number % 4 == 0 {
          _ = try await world.startGuest(key)
          return nil
        }
        let isTransfer = number % 2 == 0
        let outcome = try await world.domain.perform(
          ResolveClone(
            try Self.replacement(of: key, by: "\(key) \(number)", in: world), isTransfer ? .transfer : .split,
            newSubject: world.id(), draft: try world.draft(.guest)))
        return (isTransfer, outcome)
      }.compactMap { $0 }
      let resolved = outcomes.filter { $0.outcome != .notCloned }
      try #require(outcomes.count == 30 && resolved.count == 1)
      guard case .resolved(let winner) = resolved[0].outcome else { throw Unexpected() }
      let newKey = winner.session.device.keyThumbprint
      let guests = try await world.live(of: guest).map { $0.device.keyThumbprint }
      let winners = try await world.live(of: winner.session.subject)
      #expect((winner.session.subject == guest) == resolved[0].isTransfer)
      #expect(guests == [resolved[0].isTransfer ? newKey : key])
      #expect(winners.map(\.id) == [winner.session.id])
    }
    let isWhole = try await world.isChainWhole()
    #expect(isWhole)
  }

  @Test(
    "C3: a device has one guest, whoever signs out to it, starts on it or has it back meanwhile",
    arguments: WorldEngine.allCases)
  func starts(_ engine: WorldEngine) async throws {
    let world = try await engine.world()
    for round in 0..<4 {
      let key = "key \(round)"
      let ada = try await world.account("ada\(round)", on: key)
      let outcomes = try await world.forty { number -> (isOut: Bool, guest: SubjectID?) in
        if number % 4 > 0 { return (false, try await world.guest(key).subject) }
        let next = LogOut.NextGuest(newSubject: world.id(), draft: try world.draft(.guest))
        let outcome = try await world.domain.perform(
          LogOut(session: ada.id, reach: .local, nextGuest: next, now: world.now))
        guard case .loggedOut(_, let guest) = outcome else { return (false, nil) }
        return (true, guest?.session.subject)
      }
      let begun = Set(outcomes.compactMap { $0.guest })
      try #require(begun.count == 1)
      let guest = try begun.first.orThrow()
      let guests = try await world.live(of: guest)
      let accounts = try await world.live(of: ada.subject)
      #expect(outcomes.filter { $0.isOut }.count == 1)
      #expect(guests.count == 1 && accounts.isEmpty)
      try await restore(guest, from: ada.subject, on: key, first: round % 2 == 0, in: world)
    }
    let isWhole = try await world.isChainWhole()
    #expect(isWhole)
  }

  /// The guest becomes part of an account; that is taken back while others start on its device.
  private func restore(
    _ guest: SubjectID, from account: SubjectID, on key: String, first isFirst: Bool, in world: World
  ) async throws {
    _ = try await world.domain.perform(CompleteMerge("migration", of: guest, into: account, at: world.now))
    let outcomes = try await world.forty { number -> (restored: RestoreGuest.Outcome?, guest: SubjectID?) in
      if number % 4 != (isFirst ? 0 : 3) { return (nil, try await world.guest(key).subject) }
      let restoration = RestoreGuest("migration", of: guest, from: account, at: world.now)
      return (try await world.domain.perform(restoration), nil)
    }
    let isRestored = outcomes.contains { $0.restored == .restored }
    let replaced = outcomes.filter { $0.restored == .replaced }.count
    let already = outcomes.filter { $0.restored == .already }.count
    let begun = Set(outcomes.compactMap { $0.guest })
    try #require(begun.count == 1)
    let owner = try begun.first.orThrow()
    let live = try await world.live(of: owner)
    #expect((owner == guest) == isRestored)
    #expect(isRestored ? already == 9 : replaced == 10)
    #expect(live.count == 1)
  }

  @Test("C3: an offer to move is taken back or taken, once", arguments: WorldEngine.allCases)
  func offers(_ engine: WorldEngine) async throws {
    let world = try await engine.world()
    let ada = try await world.account("ada", on: "phone")
    var moved = 0
    for round in 0..<5 {
      let code = UInt8(round)
      let offer = TransferOffer(
        id: world.id(), codeHash: [code, 1], referenceHash: [code, 2], consent: .kept, address: "",
        needsSameNetwork: false, createdAt: world.now, expiry: world.now + .seconds(600))
      _ = try await world.domain.perform(CreateTransfer(offer, by: ada.id, provenAt: ada.authenticatedAt))
      let outcomes = try await world.forty { number -> (isMoved: Bool, isTaken: Bool) in
        if number % 4 == 0 {
          let cancellation = CancelTransfer(offer.id, of: ada.subject, at: world.now)
          return (false, try await world.domain.perform(cancellation))
        }
        let outcome = try await world.domain.perform(
          RedeemTransfer(
            secretHash: [code, 1], device: try world.device("new \(round) \(number)"), challenge: world.challenge(),
            keepsOld: true, isSameNetwork: { _, _ in true }, draft: try world.draft(.transfer)))
        guard case .moved = outcome else { return (false, false) }
        return (true, true)
      }
      moved += outcomes.filter { $0.isMoved }.count
      let left = try await world.domain.look(FindTransfer([code, 1], at: world.now))
      let live = try await world.live(of: ada.subject)
      #expect(outcomes.filter { $0.isTaken }.count == 1)
      #expect(left == nil && live.count == 1 + moved)
    }
  }

  @Test(
    "C3: what a code bound or moved goes back with it, whoever collects it meanwhile", arguments: WorldEngine.allCases)
  func codes(_ engine: WorldEngine) async throws {
    let world = try await engine.world()
    for round in 0..<4 {
      let (bound, moved) = ("bound \(round)", "moved \(round)")
      let (screen, old, new) = ("screen \(round)", "old \(round)", "new \(round)")
      let ada = try await world.account("ada\(round)", on: "phone \(round)")
      let guest = try await world.guest(old)
      let key = SignIn.Proof.unlock(account: ada.subject, kind: .key, keyThumbprint: screen, mask: "")
      _ = try await world.forty { number -> Void in
        if number == 7 + 8 * round {
          _ = try await world.domain.perform(RevokeCode(bound, at: world.now))
          _ = try await world.domain.perform(RevokeCode(moved, at: world.now))
        } else if number % 4 == 0 {
          _ = try await world.domain.perform(SignIn(proof: key, guest: nil, draft: try world.draft(.deviceKey)))
        } else if number % 4 == 1 {
          _ = try await world.domain.perform(
            IssueForQr(
              qrSession: moved, subject: guest.subject, confirmedBy: guest.id, provenAt: guest.authenticatedAt,
              draft: try world.draft(.transfer), kind: .transfer(try world.device(new))))
        } else {
          var draft = try world.draft(.qr)
          draft.boundKeyThumbprint = screen
          _ = try await world.domain.perform(
            IssueForQr(
              qrSession: bound, subject: ada.subject, confirmedBy: ada.id, provenAt: ada.authenticatedAt, draft: draft,
              kind: .bind(try world.device(screen), world.id())))
        }
      }
      let accounts = try await world.live(of: ada.subject)
      let unlocks = try await world.domain.look(ListUnlocks(of: ada.subject))
      let (back, gone) = try await world.read { rows throws(StorageError) in
        (try await rows.devices.find(old)?.guest, try await rows.devices.find(new)?.guest)
      }
      #expect(accounts.map(\.id) == [ada.id] && unlocks.isEmpty)
      #expect(back == guest.subject && gone == nil)
      let again = try await world.guest(old)
      let guests = try await world.live(of: guest.subject)
      #expect(again.subject == guest.subject && guests.map(\.id) == [again.id])
    }
    let isWhole = try await world.isChainWhole()
    #expect(isWhole)
  }
}
