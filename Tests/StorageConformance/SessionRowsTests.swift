import LatchkeyModel
import Storage
import Testing

@Suite("C20: sessions are the same rows in every engine")
struct SessionRowsTests {
  private let now = Sample.now

  @Test("C20: a session is found as it was inserted, also to be locked, and no other is", arguments: Engine.allCases)
  func insert(_ engine: Engine) async throws {
    let store = try await Store(engine)
    let session = try Sample.session(7)
    let found = try await store.write { rows throws(StorageError) in
      try await rows.sessions.insert(session)
      return [
        try await rows.sessions.find(session.id), try await rows.sessions.lock(session.id),
        try await rows.sessions.find(Sample.id(8)), try await rows.sessions.lock(Sample.id(8)),
      ]
    }
    #expect(found == [session, session, nil, nil])
    #expect(try await store.read { rows throws(StorageError) in try await rows.sessions.find(session.id) } == session)
  }

  @Test(
    "C20: a second session with the same id is refused, and nothing of its change is stored", arguments: Engine.allCases
  )
  func duplicate(_ engine: Engine) async throws {
    let store = try await Store(engine)
    let (first, second) = (try Sample.session(7), try Sample.session(7, of: 2))
    let other = try Sample.session(9)
    try await store.write { rows throws(StorageError) in try await rows.sessions.insert(first) }
    let error = await #expect(throws: StorageError.self) {
      try await store.write { rows throws(StorageError) in
        try await rows.sessions.insert(other)
        _ = try await rows.sessions.end(first.id, because: .revoked, at: Sample.now)
        try await rows.sessions.insert(second)
      }
    }
    #expect(error?.isUniqueViolation == true)
    let left = try await store.read { rows throws(StorageError) in
      [try await rows.sessions.find(first.id), try await rows.sessions.find(other.id)]
    }
    #expect(left == [first, nil])
  }

  @Test(
    "C20: of a subject's sessions those that have not ended or expired are live, the newest first",
    arguments: Engine.allCases)
  func live(_ engine: Engine) async throws {
    let store = try await Store(engine)
    let (old, new) = (try Sample.session(1), try Sample.session(2, at: now + .seconds(1)))
    let (expired, ended) = (try Sample.session(3, idle: .seconds(5)), try Sample.session(4))
    let foreign = try Sample.session(5, of: 2)
    let found = try await store.write { rows throws(StorageError) in
      for session in [old, new, expired, ended, foreign] { try await rows.sessions.insert(session) }
      _ = try await rows.sessions.end(ended.id, because: .loggedOut, at: Sample.now)
      let at = Sample.now + .seconds(5)
      return (
        try await rows.sessions.live(of: Sample.id(1), at: at, limit: 9),
        try await rows.sessions.live(of: Sample.id(1), at: at, limit: 1)
      )
    }
    #expect(found.0 == [new, old])
    #expect(found.1 == [new])
  }

  @Test("C20: a session ends once; it keeps its first reason and time", arguments: Engine.allCases)
  func end(_ engine: Engine) async throws {
    let store = try await Store(engine)
    let session = try Sample.session(1)
    let ends = try await store.write { rows throws(StorageError) in
      try await rows.sessions.insert(session)
      return [
        try await rows.sessions.end(session.id, because: .revoked, at: Sample.now),
        try await rows.sessions.end(session.id, because: .loggedOut, at: Sample.now + .seconds(1)),
        try await rows.sessions.end(Sample.id(2), because: .revoked, at: Sample.now),
      ]
    }
    #expect(ends == [EndedSession(id: session.id, subject: session.subject, why: .revoked, at: now), nil, nil])
    let stored = try await store.read { rows throws(StorageError) in try await rows.sessions.find(session.id) }
    #expect(stored?.ended == Session.Ending(at: now, why: .revoked))
  }

  @Test(
    "C20: all of a subject end but one, or those on one device; others' and ended ones stay", arguments: Engine.allCases
  )
  func endMany(_ engine: Engine) async throws {
    let store = try await Store(engine)
    let sessions = [
      try Sample.session(1), try Sample.session(2, on: "other"), try Sample.session(3, on: nil),
      try Sample.session(4, of: 2),
    ]
    let ended = try await store.write { rows throws(StorageError) in
      for session in sessions { try await rows.sessions.insert(session) }
      let onDevice = try await rows.sessions.end(
        of: Sample.id(1), onDevice: "key", because: .replaced, at: Sample.now)
      let others = try await rows.sessions.end(
        of: Sample.id(1), except: Sample.id(2), because: .loggedOut, at: Sample.now)
      let all = try await rows.sessions.end(of: Sample.id(1), except: nil, because: .loggedOut, at: Sample.now)
      let none = try await rows.sessions.end(of: Sample.id(1), except: nil, because: .loggedOut, at: Sample.now)
      return [onDevice, others, all, none].map { $0.map(\.id) }
    }
    #expect(ended == [[Sample.id(1)], [Sample.id(3)], [Sample.id(2)], []])
    let foreign = try await store.read { rows throws(StorageError) in try await rows.sessions.find(Sample.id(4)) }
    #expect(foreign == sessions[3])
  }

  @Test(
    "C20: a change stores the family and the owner's word, and nothing else of a session", arguments: Engine.allCases)
  func change(_ engine: Engine) async throws {
    let store = try await Store(engine)
    let session = try Sample.session(1)
    var changed = session
    changed.family = RefreshFamily(
      generation: 3, rotatedAt: now + .seconds(1), idleExpiry: now + .seconds(7),
      absoluteExpiry: session.family.absoluteExpiry)
    var confirmed = changed
    confirmed.authenticatedAt = now + .seconds(2)
    confirmed.provenBy = .otp
    confirmed.confirmedAt = now + .seconds(3)
    let (family, word) = (changed, confirmed)
    let found = try await store.write { rows throws(StorageError) in
      try await rows.sessions.insert(session)
      try await rows.sessions.changeFamily(of: word)
      let afterFamily = try await rows.sessions.find(session.id)
      try await rows.sessions.change(word)
      return [afterFamily, try await rows.sessions.find(session.id)]
    }
    #expect(found == [family, word])
  }

  @Test(
    "C20: an account's sessions tell that it was used on a device, ended or not; a guest's tell nothing",
    arguments: Engine.allCases)
  func wasUsed(_ engine: Engine) async throws {
    let store = try await Store(engine)
    let (account, guest) = (try Sample.session(1), try Sample.session(2, of: 2, isGuest: true))
    let found = try await store.write { rows throws(StorageError) in
      try await rows.sessions.insert(account)
      try await rows.sessions.insert(guest)
      _ = try await rows.sessions.end(account.id, because: .revoked, at: Sample.now)
      return [
        try await rows.sessions.wasUsed(Sample.id(1), onDevice: "key"),
        try await rows.sessions.wasUsed(Sample.id(1), onDevice: "other"),
        try await rows.sessions.wasUsed(Sample.id(2), onDevice: "key"),
      ]
    }
    #expect(found == [true, false, false])
  }

  @Test(
    "C20: everybody's end in steps, but those that began since or are over; the last renewal of the rest is told",
    arguments: Engine.allCases)
  func endEverybodys(_ engine: Engine) async throws {
    let store = try await Store(engine)
    let sessions = [
      try Sample.session(1), try Sample.session(2, of: 2), try Sample.session(3, idle: .seconds(5)),
      try Sample.session(4, at: now + .seconds(9)),
    ]
    let found = try await store.write { rows throws(StorageError) in
      for session in sessions { try await rows.sessions.insert(session) }
      let rotations = [
        try await rows.sessions.lastRotation(of: Sample.id(1)), try await rows.sessions.lastRotation(of: Sample.id(2)),
        try await rows.sessions.lastRotation(of: Sample.id(7)),
      ]
      let until = Sample.now + .seconds(5)
      var ended: [[EndedSession]] = []
      for _ in 0..<3 {
        ended.append(try await rows.sessions.end(begunUntil: until, limit: 1, because: .administrator, at: until))
      }
      return (rotations, ended, try await rows.sessions.lastRotation(of: Sample.id(2)))
    }
    #expect(found.0 == [now + .seconds(9), now, nil] && found.2 == nil)
    #expect(found.1.map(\.count) == [1, 1, 0])
    #expect(Set(found.1.flatMap { $0 }.map(\.id)) == [Sample.id(1), Sample.id(2)])
    #expect(Set(found.1.flatMap { $0 }.map(\.why)) == [.administrator])
  }

  @Test("C20: the newest session on a device is found, ended or not", arguments: Engine.allCases)
  func newest(_ engine: Engine) async throws {
    let store = try await Store(engine)
    let (old, new) = (try Sample.session(2), try Sample.session(1, at: now + .seconds(1)))
    let others = [
      try Sample.session(3, on: "other", at: now + .seconds(2)), try Sample.session(4, of: 2, at: now + .seconds(2)),
    ]
    let found = try await store.write { rows throws(StorageError) in
      for session in [old, new] + others { try await rows.sessions.insert(session) }
      _ = try await rows.sessions.end(new.id, because: .revoked, at: Sample.now)
      return [
        try await rows.sessions.newest(of: Sample.id(1), onDevice: "key")?.id,
        try await rows.sessions.newest(of: Sample.id(9), onDevice: "key")?.id,
      ]
    }
    #expect(found == [new.id, nil])
  }

  @Test("C20: sessions go on under another key of their device, with what is bound to it", arguments: Engine.allCases)
  func changeDevice(_ engine: Engine) async throws {
    let store = try await Store(engine)
    let (own, ended, foreign) = (try Sample.session(1), try Sample.session(2), try Sample.session(3, of: 2))
    let found = try await store.write { rows throws(StorageError) in
      for session in [own, ended, foreign] { try await rows.sessions.insert(session) }
      _ = try await rows.sessions.end(ended.id, because: .revoked, at: Sample.now)
      let count = try await rows.sessions.changeDevice(of: Sample.id(1), "key", to: "new")
      var keys: [String?] = []
      for session in [own, ended, foreign] {
        let stored = try await rows.sessions.find(session.id)
        keys += [stored?.device.keyThumbprint, stored?.boundKeyThumbprint]
      }
      return (count, keys)
    }
    #expect(found.0 == 1)
    #expect(found.1 == ["new", "new", "key", "key", "key", "key"])
  }

  @Test(
    "S19, C20: the device that somebody left is found by when and why their session ended", arguments: Engine.allCases)
  func leftDevice(_ engine: Engine) async throws {
    let store = try await Store(engine)
    let session = try Sample.session(1)
    let found = try await store.write { rows throws(StorageError) in
      try await rows.sessions.insert(session)
      _ = try await rows.sessions.end(session.id, because: .transferred, at: Sample.now)
      return [
        try await rows.sessions.device(of: Sample.id(1), leftAt: Sample.now, because: .transferred),
        try await rows.sessions.device(of: Sample.id(1), leftAt: Sample.now, because: .revoked),
        try await rows.sessions.device(of: Sample.id(1), leftAt: Sample.now + .seconds(1), because: .transferred),
        try await rows.sessions.device(of: Sample.id(2), leftAt: Sample.now, because: .transferred),
      ]
    }
    #expect(found == ["key", nil, nil, nil])
  }
}
