import LatchkeyModel
import Storage
import Testing

@Suite("C20: what holds once, and what came of what, are the same rows in every engine")
struct CredentialRowsTests {
  private let now = Sample.now

  @Test(
    "R23, C20: a challenge is used once; another one with its hash and another expiry is another",
    arguments: Engine.allCases)
  func challenges(_ engine: Engine) async throws {
    let store = try Store(engine)
    let challenge = UsedChallenge(hash: [7], expiry: now)
    let found = try await store.write { rows throws(StorageError) in
      [
        try await rows.challenges.isUsed(challenge), try await rows.challenges.insert(challenge),
        try await rows.challenges.isUsed(challenge), try await rows.challenges.insert(challenge),
        try await rows.challenges.isUsed(UsedChallenge(hash: [7], expiry: Sample.now + .seconds(1))),
      ]
    }
    #expect(found == [false, true, true, false, false])
  }

  @Test(
    "C20: a code is spent once, in time, by who has the handle; one without tries is none", arguments: Engine.allCases)
  func codes(_ engine: Engine) async throws {
    let store = try Store(engine)
    func stored(_ code: OneTimeCode, _ share: String, tries: Int64 = 5) -> StoredCode {
      StoredCode(
        code: code, share: share, expiry: now + .seconds(60), attemptsLeft: tries, elsewhereLeft: 0, sentAt: now,
        windowBeganAt: now, sends: 1)
    }
    let code = OneTimeCode(identifierHash: [1], codeHash: [2], handleHash: [3])
    let void = OneTimeCode(identifierHash: [1], codeHash: [4], handleHash: [5])
    let rowsToPut = [stored(code, "net 192.0.2.1"), stored(void, "known", tries: 0)]
    let found = try await store.write { rows throws(StorageError) in
      for row in rowsToPut { try await rows.codes.put(row) }
      var other = code
      other.handleHash = [9]
      return [
        try await rows.codes.spend(other, at: Sample.now), try await rows.codes.spend(void, at: Sample.now),
        try await rows.codes.spend(code, at: Sample.now + .seconds(60)),
        try await rows.codes.spend(code, at: Sample.now), try await rows.codes.spend(code, at: Sample.now),
      ]
    }
    #expect(found == [false, false, false, true, false])
  }

  @Test("C20: unlocks are one for each kind and key, and go by account, device or key", arguments: Engine.allCases)
  func unlocks(_ engine: Engine) async throws {
    let store = try Store(engine)
    let unlocks = [
      Sample.unlock("a", on: "phone"), Sample.unlock("b", on: "phone"), Sample.unlock("c", on: "laptop"),
      Sample.unlock("d", of: 2, on: "phone"), Sample.unlock("tv", on: "tv", code: "code"),
    ]
    let found = try await store.write { rows throws(StorageError) in
      for unlock in unlocks { try await rows.unlocks.put(unlock) }
      try await rows.unlocks.put(unlocks[0])
      let all = try await rows.unlocks.all(of: Sample.id(1)).map(\.keyThumbprint)
      let one = [try await rows.unlocks.find(.key, "a"), try await rows.unlocks.find(.pattern, "a")]
      let bound = [try await rows.unlocks.bound(by: "code"), try await rows.unlocks.bound(by: "other")]
      let removed = [
        try await rows.unlocks.remove(.key, "a", of: Sample.id(2)),
        try await rows.unlocks.remove(.key, "a", of: Sample.id(1)),
      ]
      let onPhone = try await rows.unlocks.remove(of: Sample.id(1), onDevice: "phone")
      let elsewhere = try await rows.unlocks.remove(of: Sample.id(1), exceptDevice: "laptop")
      let rest = try await rows.unlocks.remove(of: Sample.id(1), exceptDevice: nil)
      let foreign = try await rows.unlocks.find(.key, "d")
      try await rows.unlocks.remove(ofKey: "d")
      let none = try await rows.unlocks.find(.key, "d")
      return (all, one, bound, removed, [onPhone, elsewhere, rest], [foreign, none])
    }
    #expect(found.0 == ["a", "b", "c", "tv"])
    #expect(found.1 == [unlocks[0], nil] && found.2 == [unlocks[4], nil])
    #expect(found.3 == [false, true] && found.4 == [1, 1, 1] && found.5 == [unlocks[3], nil])
  }

  @Test(
    "C20: what was enrolled on a device moves with its key; what binds the device goes by the new one",
    arguments: Engine.allCases)
  func moveUnlocks(_ engine: Engine) async throws {
    let store = try Store(engine)
    let unlocks = [Sample.unlock("own", on: "old"), Sample.unlock("old", on: "old", code: "code")]
    let found = try await store.write { rows throws(StorageError) in
      for unlock in unlocks { try await rows.unlocks.put(unlock) }
      try await rows.unlocks.changeKey(ofBinding: "old", to: "new")
      try await rows.unlocks.changeDevice("old", to: "new")
      return [
        try await rows.unlocks.find(.key, "own")?.deviceKey, try await rows.unlocks.find(.key, "new")?.deviceKey,
        try await rows.unlocks.find(.key, "old")?.deviceKey,
      ]
    }
    #expect(found == ["new", "new", nil])
  }

  @Test(
    "C20: a guest session's newest ticket is kept; tickets go one by one, or with their account",
    arguments: Engine.allCases)
  func tickets(_ engine: Engine) async throws {
    let store = try Store(engine)
    let tickets = [
      Sample.ticket(1, guestSession: 1), Sample.ticket(2, guestSession: 1), Sample.ticket(3, guestSession: 2),
      Sample.ticket(4, guestSession: 3, account: 2),
    ]
    let found = try await store.write { rows throws(StorageError) in
      for ticket in tickets { try await rows.tickets.put(ticket) }
      var found = [
        try await rows.tickets.find([1]), try await rows.tickets.find([2]), try await rows.tickets.lock([3]),
      ]
      try await rows.tickets.remove([2])
      found.append(try await rows.tickets.lock([2]))
      try await rows.tickets.remove(of: Sample.id(1))
      found += [try await rows.tickets.find([3]), try await rows.tickets.find([4])]
      return found
    }
    #expect(found == [nil, tickets[1], tickets[2], nil, nil, tickets[3]])
  }

  @Test(
    "R44, C20: what came of what is found both ways, is inherited, and is forgotten with its descendant",
    arguments: Engine.allCases)
  func lineage(_ engine: Engine) async throws {
    let store = try Store(engine)
    let (code, first, second): (LineageMember, LineageMember, LineageMember) = (
      .code("code"), .session(Sample.id(1)), .session(Sample.id(2))
    )
    let others: [LineageMember] = [
      .transfer(Sample.id(3)), .unlock(.pattern, key: "a key"), .identity(.email, value: "ada @example.com"),
    ]
    let found = try await store.write { rows throws(StorageError) in
      try await rows.lineage.insert(first, cameOf: code)
      try await rows.lineage.insert(first, cameOf: code)
      for other in others { try await rows.lineage.insert(other, cameOf: first) }
      try await rows.lineage.insert(second, cameOfAncestorsOf: first)
      try await rows.lineage.insert(descendantsOf: first, cameOf: second)
      let ofCode = Set(try await rows.lineage.descendants(of: code))
      let ofFirst = Set(try await rows.lineage.descendants(of: first))
      let ofSecond = Set(try await rows.lineage.descendants(of: second))
      try await rows.lineage.remove(ancestorsOf: others[0])
      let left = try await rows.lineage.ancestors(of: others[0])
      let kept = Set(try await rows.lineage.ancestors(of: others[1]))
      return (ofCode, ofFirst, ofSecond, left, kept)
    }
    #expect(found.0 == [first, second])
    #expect(found.1 == Set(others) && found.2 == Set(others))
    #expect(found.3 == [] && found.4 == [first, second])
  }

  @Test(
    "C20: a guest has one open merge, whose sessions may change; a second one is refused", arguments: Engine.allCases)
  func merges(_ engine: Engine) async throws {
    let store = try Store(engine)
    let merge = Sample.merge(1, guest: 10)
    var changed = merge
    changed.guestSession = Sample.id(60)
    changed.targetSession = Sample.id(61)
    let newer = changed
    let found = try await store.write { rows throws(StorageError) in
      try await rows.merges.insert(merge, dueAt: Sample.now, at: Sample.now)
      let found = [
        try await rows.merges.find(merge.id), try await rows.merges.open(of: merge.guest),
        try await rows.merges.open(of: Sample.id(11)), try await rows.merges.find(Sample.id(2)),
      ]
      try await rows.merges.changeSessions(of: newer, at: Sample.now)
      return found + [try await rows.merges.find(merge.id)]
    }
    #expect(found == [merge, merge, nil, nil, newer])
    let error = await #expect(throws: StorageError.self) {
      try await store.write { rows throws(StorageError) in
        try await rows.merges.insert(Sample.merge(2, guest: 10), dueAt: Sample.now, at: Sample.now)
      }
    }
    #expect(error?.isUniqueViolation == true)
  }

  @Test("C20: of the networks of an account the newest are kept", arguments: Engine.allCases)
  func sources(_ engine: Engine) async throws {
    let store = try Store(engine)
    let found = try await store.write { rows throws(StorageError) in
      for (index, source) in ["a", "b", "c"].enumerated() {
        try await rows.sources.put(source, of: Sample.id(1), at: Sample.now + .seconds(index))
      }
      try await rows.sources.put("a", of: Sample.id(2), at: Sample.now)
      try await rows.sources.put("a", of: Sample.id(1), at: Sample.now + .seconds(9))
      try await rows.sources.remove(of: Sample.id(1), allBut: 2)
      return [
        try await rows.sources.find("a", of: Sample.id(1)), try await rows.sources.find("b", of: Sample.id(1)),
        try await rows.sources.find("c", of: Sample.id(1)), try await rows.sources.find("a", of: Sample.id(2)),
      ]
    }
    #expect(found == [now + .seconds(9), nil, now + .seconds(2), now])
  }

  @Test("C20: an answer is kept by its key until it expires; the oldest of those go first", arguments: Engine.allCases)
  func replays(_ engine: Engine) async throws {
    let store = try Store(engine)
    func replay(_ number: UInt8) -> SignInReplay {
      SignInReplay(
        session: Sample.id(number), previousSubject: Sample.id(2), isPromoted: true, isWipeRequired: false,
        merge: Sample.id(3), expiry: now + .seconds(Int(number)))
    }
    let replays = [replay(1), replay(2), replay(3)]
    let found = try await store.write { rows throws(StorageError) in
      for (index, replay) in replays.enumerated() { try await rows.replays.put(replay, [UInt8(index)]) }
      try await rows.replays.removeExpired(at: Sample.now + .seconds(2), limit: 1)
      return [
        try await rows.replays.find([0]), try await rows.replays.lock([1]), try await rows.replays.find([2]),
      ]
    }
    #expect(found == [nil, replays[1], replays[2]])
  }

  @Test("C20: what a code granted is one session at a time, and nothing once it is revoked", arguments: Engine.allCases)
  func grants(_ engine: Engine) async throws {
    let store = try Store(engine)
    let found = try await store.write { rows throws(StorageError) in
      var found = [try await rows.grants.lock("code")]
      try await rows.grants.put("code", session: Sample.id(1), at: Sample.now)
      try await rows.grants.put("code", session: Sample.id(2), at: Sample.now + .seconds(1))
      try await rows.grants.change(Sample.id(2), to: Sample.id(3))
      found.append(try await rows.grants.lock("code"))
      try await rows.grants.revoke("code", at: Sample.now)
      try await rows.grants.revoke("unknown", at: Sample.now)
      return found + [try await rows.grants.lock("code"), try await rows.grants.lock("unknown")]
    }
    #expect(
      found == [
        nil, QRGrantRecord(session: Sample.id(3), createdAt: now, isRevoked: false),
        QRGrantRecord(session: Sample.id(3), createdAt: now, isRevoked: true),
        QRGrantRecord(session: nil, createdAt: now, isRevoked: true),
      ])
  }

  @Test(
    "C20: a session's newest offer is kept, found by code and reference, and goes unless it was redeemed",
    arguments: Engine.allCases)
  func transfers(_ engine: Engine) async throws {
    let store = try Store(engine)
    func record(_ number: UInt8, session: UInt8) -> TransferRecord {
      TransferRecord(
        offer: TransferOffer(
          id: Sample.id(number), codeHash: [number, 1], referenceHash: [number, 2], consent: .either,
          address: "192.0.2.1",
          needsSameNetwork: true, createdAt: now, expiry: now + .seconds(60)),
        subject: Sample.id(1), session: Sample.id(session), triesLeft: 5)
    }
    let (first, second, third) = (record(1, session: 1), record(2, session: 1), record(3, session: 2))
    let redeemed = TransferRecord.Redeemed(
      session: Sample.id(9), challengeHash: [7], previousSubject: Sample.id(8), sessionsEnded: 2)
    let found = try await store.write { rows throws(StorageError) in
      for record in [first, second, third] { try await rows.transfers.put(record) }
      var found = [
        try await rows.transfers.find([1, 1]), try await rows.transfers.find([2, 1]),
        try await rows.transfers.lock([2, 2]), try await rows.transfers.lock(third.offer.id),
      ]
      try await rows.transfers.change(third.offer.id, triesLeft: 4)
      try await rows.transfers.change(third.offer.id, redeemed: redeemed)
      try await rows.transfers.remove(offerOf: Sample.id(1))
      try await rows.transfers.remove(offerOf: Sample.id(2))
      found += [try await rows.transfers.find([2, 1]), try await rows.transfers.find([3, 2])]
      try await rows.transfers.remove(third.offer.id)
      found.append(try await rows.transfers.find([3, 2]))
      return found
    }
    var over = third
    over.triesLeft = 4
    over.redeemed = redeemed
    #expect(found == [nil, second, second, third, nil, over, nil])
  }

  @Test("C20: events have numbers of their own, and the last one's link is found", arguments: Engine.allCases)
  func audit(_ engine: Engine) async throws {
    let store = try Store(engine)
    let event = AuditEvent(
      sequence: 1, note: AuditNote(.sessionBegan, at: now), link: [UInt8](repeating: 7, count: 32))
    let found = try await store.write { rows throws(StorageError) in
      let before = try await rows.audit.lockLast()
      try await rows.audit.insert(event)
      return [before?.sequence, try await rows.audit.lockLast()?.sequence]
    }
    #expect(found == [nil, 1])
    let error = await #expect(throws: StorageError.self) {
      try await store.write { rows throws(StorageError) in try await rows.audit.insert(event) }
    }
    #expect(error?.isUniqueViolation == true)
  }

  @Test(
    "C3: forty at once use one challenge, one identifier and one id: each is given once", arguments: Engine.allCases)
  func fortyAtOnce(_ engine: Engine) async throws {
    let store = try Store(engine)
    let challenge = UsedChallenge(hash: [7], expiry: now)
    let identity = try Sample.identity("ada@example.com")
    let merge = Sample.merge(1, guest: 10)
    let code = OneTimeCode(identifierHash: [1], codeHash: [2], handleHash: [3])
    let kept = StoredCode(
      code: code, share: "known", expiry: now + .seconds(60), attemptsLeft: 5, elsewhereLeft: 0, sentAt: now,
      windowBeganAt: now, sends: 1)
    try await store.write { rows throws(StorageError) in try await rows.codes.put(kept) }
    let storage = store
    let wins = await withTaskGroup(of: [Bool].self) { group in
      for number in 0..<UInt8(40) {
        group.addTask {
          let won = try? await storage.write { rows throws(StorageError) in
            [
              try await rows.challenges.insert(challenge),
              try await rows.identities.insert(identity, secretHash: nil, of: Sample.id(number)),
              try await rows.codes.spend(code, at: Sample.now),
            ]
          }
          let inserted: Void? = try? await storage.write { rows throws(StorageError) in
            try await rows.merges.insert(merge, dueAt: Sample.now, at: Sample.now)
          }
          return (won ?? []) + [inserted != nil]
        }
      }
      return await group.reduce(into: [0, 0, 0, 0]) { counts, won in
        for (index, isWon) in won.enumerated() where isWon { counts[index] += 1 }
      }
    }
    #expect(wins == [1, 1, 1, 1])
  }
}
