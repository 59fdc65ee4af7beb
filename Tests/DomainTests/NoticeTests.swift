import Domain
import LatchkeyModel
import Storage
import Testing

@Suite("What owners are told is written down with the change, and goes once it was delivered")
struct NoticeTests {
  private let world = World()
  private let policy = NoticePolicy()

  /// An account with an address that is proven and one that is not.
  private func account() async throws -> Session {
    let ada = try await world.account("ada", on: "phone")
    let address = try AccountIdentifier("ada@example.com").orThrow()
    _ = try await world.domain.perform(
      LinkIdentity(address, by: ada.id, code: try await world.code(), notice: world.id(), at: world.now))
    let unproven = Identity(
      kind: .email, value: "unproven@example.com", mask: "u***", linkedAt: world.now, verifiedAt: nil)
    try await world.write { rows throws(StorageError) in
      _ = try await rows.identities.insert(unproven, secretHash: nil, of: ada.subject)
    }
    return ada
  }

  private func change(_ session: Session, from: String?, to: String?) async throws -> ChangePassword.Outcome {
    try await world.domain.perform(
      ChangePassword(
        authority: .session(session.id), currentHash: from, newHash: to, endsOthers: false, notice: world.id(),
        address: "", now: world.now))
  }

  private func lease(limit: Int = 9) async throws -> LeaseNotices.Outcome {
    try await world.domain.perform(LeaseNotices(under: policy, on: .mail, limit: limit, at: world.now))
  }

  @Test("R48: each change leaves its notice for the proven addresses, and none that is refused does")
  func changes() async throws {
    let ada = try await account()
    var told: [AccountNotice] = []
    let before = try await world.domain.look(FindPassword(of: ada.subject))
    #expect(try await change(ada, from: "wrong", to: "new") == .stale)
    for (from, to) in [(before, "one"), ("one", nil), (nil, "two")] as [(String?, String?)] {
      _ = try await change(ada, from: from, to: to)
      let leased = try await lease().notices
      #expect(leased.map(\.recipient.canonical) == ["ada@example.com"])
      told += leased.map(\.notice)
      for notice in leased { try await world.domain.perform(SettleNotice(notice.key)) }
    }
    let deletion = DeleteSubject(
      subject: ada.subject, authority: .account(ada.id, world.id()), now: world.now, purgeDueAt: world.now)
    _ = try await world.domain.perform(deletion)
    told += try await lease().notices.map(\.notice)
    #expect(told == [.passwordChanged, .passwordRemoved, .passwordSet, .accountDeleted])
  }

  @Test("R48: whoever adds or takes away a way in is not the one who is told of it: the addresses from before are")
  func waysIn() async throws {
    let ada = try await account()
    _ = try await lease(limit: 99)
    func told(_ work: () async throws -> Void) async throws -> [String] {
      world.clock.advance(by: .seconds(1))
      try await work()
      let leased = try await lease(limit: 99).notices.filter { $0.at == world.now }
      for notice in leased { try await world.domain.perform(SettleNotice(notice.key)) }
      return leased.map { "\($0.notice.rawValue) \($0.recipient.canonical)" }.sorted()
    }
    let eve = try AccountIdentifier("eve@example.com").orThrow()
    let linked = try await told {
      let code = try await world.code()
      _ = try await world.domain.perform(
        LinkIdentity(eve, by: ada.id, code: code, notice: world.id(), at: world.now))
    }
    #expect(linked == ["identity_linked ada@example.com"])
    let enrolled = try await told {
      _ = try await world.domain.perform(
        EnrolUnlock(
          session: ada.id, kind: .pattern, keyThumbprint: try #require(ada.device.keyThumbprint), secretHash: "hash",
          challenge: world.challenge(), notice: world.id(), now: world.now))
    }
    #expect(enrolled == ["unlock_enrolled ada@example.com", "unlock_enrolled eve@example.com"])
    let all = try await world.domain.look(ListIdentities(of: ada.subject))
    let first = try #require(all.first { $0.value == "ada@example.com" })
    let unlinked = try await told {
      _ = try await world.domain.perform(UnlinkIdentity(first, by: ada.id, notice: world.id(), at: world.now))
    }
    #expect(unlinked == ["identity_unlinked ada@example.com", "identity_unlinked eve@example.com"])
    let refused = try await told {
      _ = try await world.domain.perform(UnlinkIdentity(first, by: ada.id, notice: world.id(), at: world.now))
      _ = try await world.domain.perform(LinkIdentity(eve, by: ada.id, notice: world.id(), at: world.now))
    }
    #expect(refused.isEmpty)
  }

  @Test("R48: a notice that is not settled is due again with the same key, later each time, and is given up in the end")
  func again() async throws {
    let ada = try await account()
    _ = try await change(ada, from: "hash of ada", to: "new")
    let first = try #require(try await lease().notices.first)
    var waits: [Duration] = []
    var since = world.now
    while true {
      world.clock.advance(by: .seconds(10))
      let taken = try await lease()
      if taken.givenUp > 0 {
        #expect(taken.notices.isEmpty && taken.givenUp == 1)
        break
      }
      for notice in taken.notices {
        #expect(notice.key == first.key && notice.recipient == first.recipient && notice.at == first.at)
        waits.append(world.now - since)
        since = world.now
      }
    }
    #expect(waits.starts(with: [60, 120, 240, 480, 960, 1920, 3600, 3600].map { .seconds($0) }))
    #expect(waits.count < 80)
  }

  @Test("R50: a dead recipient keeps a few notices and one delivery at a time, and holds up nobody")
  func dead() async throws {
    let ada = try await account()
    var hash = "hash of ada"
    for number in 0..<20 {
      _ = try await change(ada, from: hash, to: "new \(number)")
      hash = "new \(number)"
      world.clock.advance(by: .milliseconds(1))
    }
    let bob = try await world.account("bob").session
    let address = try AccountIdentifier("bob@example.com").orThrow()
    _ = try await world.domain.perform(
      LinkIdentity(address, by: bob.id, code: try await world.code(), notice: world.id(), at: world.now))
    _ = try await change(bob, from: "hash of bob", to: "new")
    var taken = try await lease().notices
    #expect(Set(taken.map(\.recipient.canonical)) == ["ada@example.com", "bob@example.com"])
    #expect(try await lease().notices.isEmpty)
    var delivered: [String] = []
    while !taken.isEmpty {
      for notice in taken {
        delivered.append(notice.recipient.canonical)
        try await world.domain.perform(SettleNotice(notice.key))
      }
      taken = try await lease().notices
      #expect(taken.count <= 1)
    }
    #expect(delivered.count == policy.mostPerRecipient + 1)
    #expect(delivered.filter { $0 == "bob@example.com" }.count == 1)
  }
}
