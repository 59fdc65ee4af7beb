import LatchkeyModel
import Storage
import Testing

@Suite("C20: what is over goes from every engine in bounded steps, the oldest first")
struct ForgettingTests {
  private let now = Sample.now

  @Test(
    "C20: sessions go with the grants that began them and what they came of; live ones stay", arguments: Engine.allCases
  )
  func sessions(_ engine: Engine) async throws {
    let store = try await Store(engine)
    let sessions = [
      try Sample.session(1), try Sample.session(2), try Sample.session(3, idle: .seconds(3)),
      try Sample.session(4, idle: .seconds(4)), try Sample.session(5),
    ]
    let found = try await store.write { rows throws(StorageError) in
      for session in sessions { try await rows.sessions.insert(session) }
      for (id, seconds) in [(1, 2), (2, 1)] as [(UInt8, Int)] {
        _ = try await rows.sessions.end(Sample.id(id), because: .revoked, at: Sample.now + .seconds(seconds))
      }
      for id in [2, 3, 5] as [UInt8] {
        try await rows.grants.put("code \(id)", session: Sample.id(id), turn: nil, at: Sample.now)
        try await rows.lineage.insert(.session(Sample.id(id)), cameOf: .code("code \(id)"))
      }
      let since = [
        try await rows.sessions.ended(since: Sample.now),
        try await rows.sessions.ended(since: Sample.now + .seconds(2)),
      ]
      let time = Sample.now + .seconds(9)
      let first = try await rows.sessions.remove(overBefore: time, limit: 1)
      var left: [Bool] = []
      for id in 1...5 as ClosedRange<UInt8> { left.append(try await rows.sessions.find(Sample.id(id)) != nil) }
      let counts = [
        first, try await rows.sessions.remove(overBefore: time, limit: 9),
        try await rows.sessions.remove(overBefore: time, limit: 9),
      ]
      let grants = [
        try await rows.grants.lock("code 2"), try await rows.grants.lock("code 3"),
        try await rows.grants.lock("code 5"),
      ]
      let ancestors = [
        try await rows.lineage.ancestors(of: .session(Sample.id(2))),
        try await rows.lineage.ancestors(of: .session(Sample.id(5))),
      ]
      return (since, left, counts, grants.map { $0 != nil }, ancestors)
    }
    #expect(Set(found.0[0].map(\.id)) == [Sample.id(1), Sample.id(2)])
    #expect(
      found.0[1] == [
        EndedSession(id: Sample.id(1), subject: Sample.id(1), why: .revoked, at: now + .seconds(2))
      ])
    #expect(found.1 == [true, false, false, true, true])
    #expect(found.2 == [6, 2, 0])
    #expect(found.3 == [false, false, true])
    #expect(found.4 == [[], [.code("code 5")]])
  }

  @Test("C20: challenges, tickets and offers go once they have expired", arguments: Engine.allCases)
  func expired(_ engine: Engine) async throws {
    let store = try await Store(engine)
    let challenges = (1...3).map { UsedChallenge(hash: [$0], expiry: now + .seconds(Int($0))) }
    let tickets = (1...3 as ClosedRange<UInt8>).map { number in
      var ticket = Sample.ticket(number, guestSession: number)
      ticket.expiry = now + .seconds(Int(number))
      return ticket
    }
    let transfers = (1...3 as ClosedRange<UInt8>).map { number in
      TransferRecord(
        offer: TransferOffer(
          id: Sample.id(number), codeHash: [number, 1], referenceHash: [number, 2], consent: .either, address: "",
          needsSameNetwork: false, createdAt: now, expiry: now + .seconds(Int(number))),
        subject: Sample.id(1), session: Sample.id(number), triesLeft: 5)
    }
    let found = try await store.write { rows throws(StorageError) in
      for challenge in challenges { _ = try await rows.challenges.insert(challenge) }
      for ticket in tickets { try await rows.tickets.put(ticket) }
      for transfer in transfers { try await rows.transfers.put(transfer) }
      let time = Sample.now + .seconds(3)
      var counts: [[Int]] = []
      for _ in 0..<3 {
        counts.append([
          try await rows.challenges.remove(expiredBefore: time, limit: 1),
          try await rows.tickets.remove(expiredBefore: time, limit: 1),
          try await rows.transfers.remove(expiredBefore: time, limit: 1),
        ])
      }
      let left = [
        try await rows.challenges.isUsed(challenges[1]), try await rows.challenges.isUsed(challenges[2]),
        try await rows.tickets.find([2]) != nil, try await rows.tickets.find([3]) != nil,
        try await rows.transfers.find([2, 1]) != nil, try await rows.transfers.find([3, 1]) != nil,
      ]
      return (counts, left)
    }
    #expect(found.0 == [[1, 1, 1], [1, 1, 1], [0, 0, 0]])
    #expect(found.1 == [false, true, false, true, false, true])
  }

  @Test("C20: tries, merges that are over and codes that granted nothing go by their age", arguments: Engine.allCases)
  func old(_ engine: Engine) async throws {
    let store = try await Store(engine)
    var over = Sample.merge(1, guest: 10)
    over.state = .completed
    let (completed, open) = (over, Sample.merge(2, guest: 11))
    let now = now
    let found = try await store.write { rows throws(StorageError) in
      for seconds in 1...3 {
        try await rows.attempts.put(
          CountedTries(failures: 1, lastAt: now + .seconds(seconds)), [UInt8(seconds)], "")
        try await rows.mergedGuests.put(Sample.id(1), onDevice: "\(seconds)", at: now + .seconds(seconds))
        try await rows.grants.revoke("code \(seconds)", at: now + .seconds(seconds))
      }
      try await rows.grants.put("granted", session: Sample.id(1), turn: nil, at: now)
      for merge in [completed, open] { try await rows.merges.insert(merge, dueAt: now, at: now) }
      try await rows.merges.change(completed, at: now + .seconds(2))
      let time = now + .seconds(3)
      var counts: [[Int]] = []
      for _ in 0..<3 {
        counts.append([
          try await rows.attempts.remove(lastBefore: time, limit: 1),
          try await rows.mergedGuests.remove(before: time, limit: 1),
          try await rows.grants.remove(emptyBefore: time, limit: 1),
          try await rows.merges.remove(overBefore: time, limit: 1),
        ])
      }
      let left = [
        try await rows.attempts.lock([2], "") != nil, try await rows.attempts.lock([3], "") != nil,
        try await rows.grants.lock("code 2") != nil, try await rows.grants.lock("code 3") != nil,
        try await rows.grants.lock("granted") != nil, try await rows.merges.find(completed.id) != nil,
        try await rows.merges.find(open.id) != nil,
      ]
      return (counts, left, try await rows.mergedGuests.devices(of: Sample.id(1)))
    }
    #expect(found.0 == [[1, 1, 1, 1], [1, 1, 1, 0], [0, 0, 0, 0]])
    #expect(found.1 == [false, true, false, true, true, false, true] && found.2 == ["3"])
  }
}
