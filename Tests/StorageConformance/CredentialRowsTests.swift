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
    let store = try await Store(engine)
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
    let store = try await Store(engine)
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

  @Test(
    "C20: codes are one for each identifier and share, and go by the time that they were sent",
    arguments: Engine.allCases)
  func codeShares(_ engine: Engine) async throws {
    let store = try await Store(engine)
    func stored(_ identifier: UInt8, _ share: String, sentAfter seconds: Int, sends: Int64 = 1) -> StoredCode {
      StoredCode(
        code: OneTimeCode(identifierHash: [identifier], codeHash: [2], handleHash: [3]), share: share,
        expiry: now + .seconds(60), attemptsLeft: 5, elsewhereLeft: 4, sentAt: now + .seconds(seconds),
        windowBeganAt: now, sends: sends)
    }
    let (known, net) = (stored(1, "known", sentAfter: 3), stored(1, "net", sentAfter: 1))
    let (again, other) = (stored(1, "known", sentAfter: 4, sends: 2), stored(2, "known", sentAfter: 2))
    let found = try await store.write { rows throws(StorageError) in
      for row in [net, known, other, again] { try await rows.codes.put(row) }
      let locked = [
        try await rows.codes.lock([1], "known"), try await rows.codes.lock([1], "net"),
        try await rows.codes.lock([1], ""), try await rows.codes.lock([9], "known"),
      ]
      let all = try await rows.codes.lockAll(of: [1])
      try await rows.codes.remove(sentBefore: Sample.now + .seconds(4), limit: 1)
      let first = try await rows.codes.lockAll(of: [1]) + rows.codes.lockAll(of: [2])
      try await rows.codes.remove(sentBefore: Sample.now + .seconds(4), limit: 9)
      return (locked, all, first, try await rows.codes.lockAll(of: [1]) + rows.codes.lockAll(of: [2]))
    }
    #expect(found.0 == [again, net, nil, nil] && found.1 == [again, net])
    #expect(found.2 == [again, other] && found.3 == [again])
  }

  @Test("C20: tries are counted by what was tried and for whom", arguments: Engine.allCases)
  func attempts(_ engine: Engine) async throws {
    let store = try await Store(engine)
    let (first, second) = (CountedTries(failures: 1, lastAt: now), CountedTries(failures: 2, lastAt: now + .seconds(1)))
    let found = try await store.write { rows throws(StorageError) in
      var found = [try await rows.attempts.lock([1], "")]
      try await rows.attempts.put(first, [1], "")
      try await rows.attempts.put(first, [1], "key")
      try await rows.attempts.put(second, [1], "")
      found += [
        try await rows.attempts.lock([1], ""), try await rows.attempts.lock([1], "key"),
        try await rows.attempts.lock([2], ""),
      ]
      try await rows.attempts.remove([1], "")
      try await rows.attempts.remove([2], "")
      return found + [try await rows.attempts.lock([1], ""), try await rows.attempts.lock([1], "key")]
    }
    #expect(found == [nil, second, first, nil, nil, first])
  }

  @Test("C20: unlocks are one for each kind and key, and go by account, device or key", arguments: Engine.allCases)
  func unlocks(_ engine: Engine) async throws {
    let store = try await Store(engine)
    let unlocks = [
      Sample.unlock("a", on: "phone"), Sample.unlock("b", on: "phone"), Sample.unlock("c", on: "laptop"),
      Sample.unlock("d", of: 2, on: "phone"), Sample.unlock("tv", on: "tv", code: "code"),
    ]
    let found = try await store.write { rows throws(StorageError) in
      for unlock in unlocks { try await rows.unlocks.put(unlock, triesLeft: 10) }
      try await rows.unlocks.put(unlocks[0], triesLeft: 10)
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

  @Test("C20: an unlock is locked with its tries, which go down and begin anew", arguments: Engine.allCases)
  func tries(_ engine: Engine) async throws {
    let store = try await Store(engine)
    var pattern = Sample.unlock("phone", on: "phone")
    (pattern.kind, pattern.secretHash) = (.pattern, "hash")
    let (key, secret) = (Sample.unlock("phone", on: "phone"), pattern)
    let found = try await store.write { rows throws(StorageError) in
      try await rows.unlocks.put(secret, triesLeft: 10)
      try await rows.unlocks.put(key, triesLeft: 7)
      let locked = try await rows.unlocks.lock(.pattern, "phone")
      try await rows.unlocks.change(.pattern, "phone", triesLeft: 3)
      try await rows.unlocks.change(.pattern, "absent", triesLeft: 3)
      let left = [
        locked?.triesLeft, try await rows.unlocks.lock(.pattern, "phone")?.triesLeft,
        try await rows.unlocks.lock(.key, "phone")?.triesLeft, try await rows.unlocks.lock(.key, "absent")?.triesLeft,
      ]
      try await rows.unlocks.put(secret, triesLeft: 10)
      return (locked?.unlock, left, try await rows.unlocks.lock(.pattern, "phone")?.triesLeft)
    }
    #expect(found.0 == secret && found.1 == [10, 3, 7, nil] && found.2 == 10)
  }

  @Test(
    "C20: what was enrolled on a device moves with its key; what binds the device goes by the new one",
    arguments: Engine.allCases)
  func moveUnlocks(_ engine: Engine) async throws {
    let store = try await Store(engine)
    let unlocks = [Sample.unlock("own", on: "old"), Sample.unlock("old", on: "old", code: "code")]
    let found = try await store.write { rows throws(StorageError) in
      for unlock in unlocks { try await rows.unlocks.put(unlock, triesLeft: 10) }
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
    let store = try await Store(engine)
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
    let store = try await Store(engine)
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
    let store = try await Store(engine)
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
    let store = try await Store(engine)
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
    let store = try await Store(engine)
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
    let store = try await Store(engine)
    let found = try await store.write { rows throws(StorageError) in
      var found = [try await rows.grants.lock("code")]
      try await rows.grants.put("code", session: Sample.id(1), turn: nil, at: Sample.now)
      try await rows.grants.put("code", session: Sample.id(2), turn: 7, at: Sample.now + .seconds(1))
      try await rows.grants.change(Sample.id(2), to: Sample.id(3))
      found.append(try await rows.grants.lock("code"))
      try await rows.grants.revoke("code", at: Sample.now)
      try await rows.grants.revoke("unknown", at: Sample.now)
      try await rows.grants.put("code", session: nil, turn: 8, at: Sample.now)
      try await rows.grants.put("refused", session: nil, turn: 1, at: Sample.now)
      found.append(try await rows.grants.find("refused"))
      try await rows.grants.put("refused", session: Sample.id(4), turn: nil, at: Sample.now)
      found.append(try await rows.grants.find("refused"))
      return found + [try await rows.grants.find("code"), try await rows.grants.lock("unknown")]
    }
    #expect(
      found == [
        nil, QRGrantRecord(session: Sample.id(3), createdAt: now, isRevoked: false, turn: 7),
        QRGrantRecord(session: nil, createdAt: now, isRevoked: false, turn: 1),
        QRGrantRecord(session: Sample.id(4), createdAt: now, isRevoked: false, turn: 1),
        QRGrantRecord(session: Sample.id(3), createdAt: now, isRevoked: true, turn: 8),
        QRGrantRecord(session: nil, createdAt: now, isRevoked: true),
      ])
  }

  @Test(
    "C20: a session's newest offer is kept, found by code and reference, and goes unless it was redeemed",
    arguments: Engine.allCases)
  func transfers(_ engine: Engine) async throws {
    let store = try await Store(engine)
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
      try await rows.transfers.put(first)
      try await rows.transfers.put(third)
      try await rows.transfers.remove(of: Sample.id(9))
      found.append(try await rows.transfers.find([1, 1]))
      try await rows.transfers.remove(of: Sample.id(1))
      found += [try await rows.transfers.find([1, 1]), try await rows.transfers.find([3, 1])]
      return found
    }
    var over = third
    over.triesLeft = 4
    over.redeemed = redeemed
    #expect(found == [nil, second, second, third, nil, over, nil, first, nil, nil])
  }

  @Test(
    "C3: forty at once use one challenge, one identifier and one id: each is given once", arguments: Engine.allCases)
  func fortyAtOnce(_ engine: Engine) async throws {
    let store = try await Store(engine)
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

  @Test("C3: forty at once who change what they locked lose nothing of each other", arguments: Engine.allCases)
  func lockedChanges(_ engine: Engine) async throws {
    let store = try await Store(engine)
    let guide = try #require(GuideID("guide"))
    var pattern = Sample.unlock("phone", on: "phone")
    (pattern.kind, pattern.secretHash) = (.pattern, "hash")
    let (unlock, merge) = (pattern, Sample.merge(1, guest: 10))
    let code = StoredCode(
      code: OneTimeCode(identifierHash: [1], codeHash: [2], handleHash: [3]), share: "", expiry: now, attemptsLeft: 40,
      elsewhereLeft: 0, sentAt: now, windowBeganAt: now, sends: 0)
    try await store.write { rows throws(StorageError) in
      try await rows.unlocks.put(unlock, triesLeft: 40)
      try await rows.codes.put(code)
      try await rows.merges.insert(merge, dueAt: Sample.now, at: Sample.now)
      try await rows.purges.insert(Sample.id(1), dueAt: Sample.now)
    }
    try await withThrowingTaskGroup(of: Void.self) { group in
      for _ in 0..<40 {
        group.addTask {
          try await store.write { rows throws(StorageError) in
            let tries = try await rows.attempts.lock([1], "")?.failures ?? 0
            try await rows.attempts.put(CountedTries(failures: tries + 1, lastAt: Sample.now), [1], "")
            let left = try await rows.unlocks.lock(.pattern, "phone")?.triesLeft ?? 0
            try await rows.unlocks.change(.pattern, "phone", triesLeft: left - 1)
            if var code = try await rows.codes.lock([1], "") {
              code.attemptsLeft -= 1
              try await rows.codes.put(code)
            }
            if var merge = try await rows.merges.lock(Sample.id(1)) {
              merge.attempts += 1
              try await rows.merges.change(merge, dueAt: Sample.now)
            }
            let purge = try await rows.purges.lock(Sample.id(1))?.attempts ?? 0
            try await rows.purges.change(Sample.id(1), attempts: purge + 1, dueAt: Sample.now)
            let revision = try await rows.guides.lock(guide, of: Sample.id(1))?.progress.revision ?? 0
            let progress = GuideProgress(status: .active, position: 0, step: nil, revision: revision + 1)
            try await rows.guides.put(
              StoredGuideProgress(guide: guide, progress: progress, updatedAt: Sample.now), of: Sample.id(1))
          }
        }
      }
      try await group.waitForAll()
    }
    let found = try await store.write { rows throws(StorageError) in
      [
        try await rows.attempts.lock([1], "")?.failures, try await rows.unlocks.lock(.pattern, "phone")?.triesLeft,
        try await rows.codes.lock([1], "")?.attemptsLeft, try await rows.merges.find(Sample.id(1))?.attempts,
        try await rows.purges.lock(Sample.id(1))?.attempts,
        try await rows.guides.find(guide, of: Sample.id(1))?.progress.revision,
      ]
    }
    #expect(found == [40, 0, 0, 40, 40, 40])
  }
}
