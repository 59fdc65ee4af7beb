import Domain
import LatchkeyModel
import Storage
import Testing

/// What is changed of one account at the same moment (C3).
@Suite("C3: what forty change of one account is as one after the other would leave it", .serialized)
struct OwnersAtOnceTests {
  @Test("C3: of forty who change a secret none brings the old one back", arguments: WorldEngine.allCases)
  func secrets(_ engine: WorldEngine) async throws {
    let world = try await engine.world()
    for round in 0..<5 {
      let name = "ada\(round)"
      let ada = try await world.account(name).session
      let identifier = try AccountIdentifier(name).orThrow()
      let custom = AccountIdentifier.customID(try CustomID("custom-identifier-\(round)").orThrow())
      @Sendable func link(_ hash: String) async throws {
        _ = try await world.domain.perform(
          LinkIdentity(custom, by: ada.id, secretHash: hash, notice: world.id(), at: world.now))
      }
      @Sendable func strengthen(_ identifier: AccountIdentifier, from old: String) async throws {
        try await world.domain.perform(StrengthenSecret(of: identifier, from: old, to: "strong", at: world.now))
      }
      try await link("own")
      let changed = try await world.forty { number -> String? in
        switch number % 4 {
        case 0:
          let outcome = try await world.domain.perform(
            ChangePassword(
              authority: .session(ada.id), currentHash: "hash of \(name)", newHash: "new \(number)", endsOthers: false,
              notice: world.id(), address: "", now: world.now))
          if case .changed = outcome { return "new \(number)" }
        case 1: try await strengthen(identifier, from: "hash of \(name)")
        case 2: try await link("set \(number)")
        default: try await strengthen(custom, from: "own")
        }
        return nil
      }.compactMap { $0 }
      let password = try await world.domain.look(FindPassword(of: ada.subject))
      let secret = try await world.domain.look(FindAccount(for: custom))?.passwordHash
      #expect(changed.count <= 1)
      #expect(password == changed.first ?? "strong")
      #expect(secret?.hasPrefix("set") == true)
    }
    let isWhole = try await world.isChainWhole()
    #expect(isWhole)
  }

  @Test("C3: a code that came to an address holds once, for whatever it is shown", arguments: WorldEngine.allCases)
  func codes(_ engine: WorldEngine) async throws {
    let world = try await engine.world()
    for round in 0..<3 {
      let name = "ada\(round)"
      let ada = try await world.account(name).session
      let address = try AccountIdentifier("\(name)@example.com").orThrow()
      let first = try await world.code()
      _ = try await world.domain.perform(
        LinkIdentity(address, by: ada.id, code: first, notice: world.id(), at: world.now))
      let code = try await world.code()
      let held = try await world.forty { number -> Bool in
        switch number % 3 {
        case 0:
          let outcome = try await world.domain.perform(
            ChangePassword(
              authority: .code(ada.subject, address, code), currentHash: nil, newHash: "new", endsOthers: false,
              notice: world.id(), address: "", now: world.now))
          return outcome != .codeSpent
        case 1:
          let outcome = try await world.domain.perform(
            VerifyIdentifier(address, by: ada.id, code: code, at: world.now))
          return outcome != .codeSpent
        default:
          let proof = SignIn.Proof.code(account: ada.subject, identifier: address, code: code)
          let outcome = try await world.domain.perform(
            StepUp(
              session: ada.id, proof: .credential(proof), challenge: nil, lifetimes: world.lifetimes, address: "",
              now: world.now))
          return outcome != .credentialChanged
        }
      }
      #expect(held.filter { $0 }.count == 1)
    }
  }

  @Test("C3: an address that nobody had proven is one owner's", arguments: WorldEngine.allCases)
  func addresses(_ engine: WorldEngine) async throws {
    let world = try await engine.world()
    let bob = try await world.account("bob").session
    var accounts: [Session] = []
    for number in 0..<20 { accounts.append(try await world.account("user\(number)").session) }
    let others = accounts
    for round in 0..<3 {
      let address = try AccountIdentifier("address\(round)@example.com").orThrow()
      _ = try await world.domain.perform(LinkIdentity(address, by: bob.id, notice: world.id(), at: world.now))
      let owners = try await world.forty { number -> SubjectID? in
        let code = try await world.code()
        if number == 20 {
          let outcome = try await world.domain.perform(
            VerifyIdentifier(address, by: bob.id, code: code, at: world.now))
          return outcome == .verified ? bob.subject : nil
        }
        if number % 2 == 0 {
          let own = others[number / 2]
          let outcome = try await world.domain.perform(
            LinkIdentity(address, by: own.id, code: code, notice: world.id(), at: world.now))
          if case .linked = outcome { return own.subject }
          return nil
        }
        let outcome = try await world.domain.perform(
          Register(
            identifier: address, secretHash: nil, code: code, nickname: nil, locale: nil, newSubject: world.id(),
            guestSession: nil, draft: try world.draft(.otp)))
        if case .registered(let signedIn) = outcome { return signedIn.session.subject }
        return nil
      }.compactMap { $0 }
      let owner = try await world.domain.look(FindOwner(of: address)).orThrow()
      #expect(owners == [owner])
    }
    let isWhole = try await world.isChainWhole()
    #expect(isWhole)
  }

  @Test("C3: forty changes of a profile are forty, and a device has one name", arguments: WorldEngine.allCases)
  func profiles(_ engine: WorldEngine) async throws {
    let world = try await engine.world()
    for round in 0..<3 {
      let key = "phone \(round)"
      let ada = try await world.account("ada\(round)", on: key)
      let isNamed = try await world.forty { number -> Bool in
        let label = try DisplayText("phone \(number)").orThrow()
        return try await world.domain.perform(RenameDevice(key, of: ada.subject, to: label, at: world.now))
      }
      let onSession = try await world.session(ada.id)?.device.label
      let onDevice = try await world.read { rows throws(StorageError) in try await rows.devices.label(of: key) }
      #expect(isNamed.allSatisfy { $0 } && onSession != nil && onSession == onDevice)
      // Each counts on from the one before, until the session ends.
      let counts = try await world.forty { number -> Int? in
        if number == 10 * (round + 1) {
          _ = try await world.domain.perform(EndSession(ada.id, because: .loggedOut, at: world.now))
          return nil
        }
        let profile = try await world.domain.perform(
          UpdateProfile(by: ada.id, at: world.now) { profile in
            let count = profile.nickname.flatMap { Int($0.description) } ?? 0
            profile.nickname = Nickname("\(count + 1)")
          })
        return profile?.nickname.flatMap { Int($0.description) }
      }.compactMap { $0 }
      let subject = try await world.domain.look(FindSubject(ada.subject)).orThrow()
      #expect(counts.sorted() == Array(1..<(counts.count + 1)))
      #expect(subject.profile.nickname?.description == counts.max().map { "\($0)" })
    }
  }

  @Test(
    "C3: an unlock that is taken away leaves no ticket behind, and signs its device in once",
    arguments: WorldEngine.allCases)
  func unlocks(_ engine: WorldEngine) async throws {
    let world = try await engine.world()
    for round in 0..<3 {
      let (name, key, phone) = ("ada\(round)", "finger \(round)", "phone \(round)")
      let ada = try await world.account(name, on: phone)
      let enrolled = try await world.domain.perform(
        EnrolUnlock(
          session: ada.id, kind: .key, keyThumbprint: key, secretHash: nil, challenge: world.challenge(),
          notice: world.id(), now: world.now))
      guard case .enrolled(let unlock, _) = enrolled,
        case .signedIn(let owner) = try await world.signIn(name, as: ada.subject)
      else { throw Unexpected() }
      var begun: [Session] = []
      for number in 0..<20 { begun.append(try await world.guest("\(name) guest \(number)")) }
      let guests = begun
      let proof = SignIn.Proof.unlock(account: ada.subject, kind: .key, keyThumbprint: key, mask: "")
      let removed = try await world.forty { number -> Bool in
        if number == 10 * (round + 1) {
          let removal = RemoveUnlock(unlock, by: owner.session.id, at: world.now)
          return try await world.domain.perform(removal) == .removed
        }
        if number % 2 == 0 {
          _ = try await world.domain.perform(SignIn(proof: proof, guest: nil, draft: try world.draft(.deviceKey)))
        } else {
          let ticket = LinkTicket(
            hash: [UInt8(round), UInt8(number / 2)], guestSession: guests[number / 2].id, account: ada.subject,
            authority: ada.authority, accountMask: "", expiry: world.now + .seconds(60))
          _ = try await world.domain.perform(KeepTicket(ticket, for: proof, challenge: nil, at: world.now))
        }
        return false
      }
      var tickets: [LinkTicket?] = []
      for number in 0..<20 {
        let find = FindTicket([UInt8(round), UInt8(number)], of: guests[number].id, at: world.now)
        tickets.append(try await world.domain.look(find))
      }
      let unlocks = try await world.domain.look(ListUnlocks(of: ada.subject))
      let onPhone = try await world.live(of: ada.subject).filter { $0.device.keyThumbprint == phone }
      #expect(removed.filter { $0 }.count == 1 && unlocks.isEmpty)
      #expect(tickets.allSatisfy { $0 == nil })
      #expect(onPhone.count == 1)
    }
  }

  @Test("C3: every step-up counts, and leaves no offer of an older proof", arguments: WorldEngine.allCases)
  func stepUps(_ engine: WorldEngine) async throws {
    let world = try await engine.world()
    for round in 0..<3 {
      let name = "ada\(round)"
      let ada = try await world.account(name).session
      world.clock.advance(by: .seconds(1))
      let proof = SignIn.Proof.password(
        account: ada.subject, identifier: try AccountIdentifier(name).orThrow(), hash: "hash of \(name)")
      let stepped = try await world.forty { number -> Bool in
        if number % 2 == 0 {
          let outcome = try await world.domain.perform(
            StepUp(
              session: ada.id, proof: .credential(proof), challenge: world.challenge(), lifetimes: world.lifetimes,
              address: "", now: world.now))
          if case .steppedUp = outcome { return true }
          return false
        }
        let offer = TransferOffer(
          id: world.id(), codeHash: [UInt8(round), UInt8(number), 1], referenceHash: [UInt8(round), UInt8(number), 2],
          consent: .kept, address: "", needsSameNetwork: false, createdAt: world.now,
          expiry: world.now + .seconds(600))
        _ = try await world.domain.perform(CreateTransfer(offer, by: ada.id, provenAt: ada.authenticatedAt))
        return false
      }
      var offers: [StoredTransfer?] = []
      for number in 0..<40 {
        offers.append(
          try await world.domain.look(FindTransfer([UInt8(round), UInt8(number), 1], at: world.now)))
      }
      let after = try await world.session(ada.id)
      #expect(stepped.filter { $0 }.count == 20)
      #expect(after?.family.generation == 41)
      #expect(offers.allSatisfy { $0 == nil })
    }
  }
}
