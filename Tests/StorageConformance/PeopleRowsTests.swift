import LatchkeyModel
import Storage
import Testing

@Suite("C20: subjects, devices and what leads to accounts are the same rows in every engine")
struct PeopleRowsTests {
  private let now = Sample.now

  @Test(
    "C20: a subject is found as it was inserted and changed; a second one with its id is refused",
    arguments: Engine.allCases)
  func subjects(_ engine: Engine) async throws {
    let store = try await Store(engine)
    let guest = Subject(id: Sample.id(1), kind: .guest, createdAt: now, profile: Profile(locale: LanguageTag("de")))
    var merged = guest
    _ = merged.merge(into: Sample.id(2))
    merged.profile.nickname = Nickname("Ada")
    let changed = merged
    let found = try await store.write { rows throws(StorageError) in
      let before = try await rows.subjects.lock(guest.id)
      try await rows.subjects.insert(guest)
      let inserted = try await rows.subjects.find(guest.id)
      try await rows.subjects.change(changed, usedAt: Sample.now + .seconds(1))
      try await rows.subjects.change(guest.id, usedAt: Sample.now + .seconds(2))
      try await rows.subjects.change(Sample.id(9), usedAt: Sample.now)
      return [before, inserted, try await rows.subjects.lock(guest.id), try await rows.subjects.find(Sample.id(9))]
    }
    #expect(found == [nil, guest, changed, nil])
    let error = await #expect(throws: StorageError.self) {
      try await store.write { rows throws(StorageError) in try await rows.subjects.insert(guest) }
    }
    #expect(error?.isUniqueViolation == true)
  }

  @Test(
    "C20: who is kept out, was exported or deleted is told by its row; guests that are not used have an order",
    arguments: Engine.allCases)
  func standing(_ engine: Engine) async throws {
    let store = try await Store(engine)
    let guests = (1...3).map { Subject(id: Sample.id($0), kind: .guest, createdAt: now + .seconds(Int($0 / 3))) }
    let account = Subject(id: Sample.id(9), kind: .account, createdAt: now, profile: Profile(nickname: Nickname("Ada")))
    let found = try await store.write { rows throws(StorageError) in
      for subject in guests + [account] { try await rows.subjects.insert(subject) }
      try await rows.subjects.change(Sample.id(1), exportedAt: Sample.now + .seconds(5), recordsVersion: 7)
      try await rows.subjects.change(account.id, disabledAt: Sample.now + .seconds(3))
      var standings = [
        try await rows.subjects.standing(of: Sample.id(1)), try await rows.subjects.standing(of: account.id),
        try await rows.subjects.standing(of: Sample.id(8)),
      ]
      let time = Sample.now + .seconds(1)
      let count = try await rows.subjects.countGuests()
      let first = try await rows.subjects.unusedGuests(before: time, after: nil, limit: 1)
      let second = try await rows.subjects.unusedGuests(before: time, after: first.last, limit: 9)
      try await rows.subjects.change(Sample.id(1), deletedAt: Sample.now)
      try await rows.subjects.change(account.id, disabledAt: nil)
      try await rows.subjects.change(account.id, deletedAt: Sample.now)
      standings += [
        try await rows.subjects.standing(of: Sample.id(1)), try await rows.subjects.standing(of: account.id),
      ]
      let rest = try await rows.subjects.unusedGuests(before: time + .seconds(9), after: nil, limit: 9)
      return (standings, [count, try await rows.subjects.countGuests()], first, second, rest)
    }
    var kept = account
    kept.disabledAt = now + .seconds(3)
    #expect(
      found.0 == [
        SubjectStanding(subject: guests[0], lastSeenAt: now, exportedAt: now + .seconds(5)),
        SubjectStanding(subject: kept, lastSeenAt: now, exportedAt: nil), nil,
        SubjectStanding(
          subject: Subject(id: Sample.id(1), kind: .deleted, createdAt: now), lastSeenAt: now,
          exportedAt: now + .seconds(5)),
        SubjectStanding(
          subject: Subject(id: account.id, kind: .deleted, createdAt: now), lastSeenAt: now, exportedAt: nil),
      ])
    #expect(found.1 == [3, 2])
    #expect(found.2 == [UnusedGuest(id: Sample.id(1), lastSeenAt: now, exportedVersion: 7)])
    #expect(found.3.map(\.id) == [Sample.id(2)] && found.4.map(\.id) == [Sample.id(2), Sample.id(3)])
  }

  @Test(
    "C20: the devices of a subject are those of its live sessions and unlocks, as they and their owner describe them",
    arguments: Engine.allCases)
  func usedDevices(_ engine: Engine) async throws {
    let store = try await Store(engine)
    let device = DeviceRegistration(
      keyThumbprint: "key", publicKeyX: [1], publicKeyY: [2],
      deviceID: try #require(DeviceID("01234567-89ab-4cde-8f01-23456789abcd")), osVersion: DisplayText("17"),
      appVersion: DisplayText("2"))
    let (registered, label) = (try Sample.registration("key"), try #require(DisplayText("Ada's")))
    let sessions = [
      try Sample.session(1, at: now + .seconds(5)), try Sample.session(2), try Sample.session(3, on: "screen"),
      try Sample.session(4, on: "expired", idle: .seconds(1)), try Sample.session(5, on: "ended"),
      try Sample.session(6, on: nil), try Sample.session(7, of: 2, on: "foreign"),
    ]
    let found = try await store.write { rows throws(StorageError) in
      try await rows.devices.put(registered, counter: nil, newGuest: nil, at: Sample.now - .seconds(9))
      try await rows.devices.put(device, counter: nil, newGuest: nil, at: Sample.now + .seconds(3))
      for session in sessions { try await rows.sessions.insert(session) }
      _ = try await rows.sessions.end(Sample.id(5), because: .revoked, at: Sample.now)
      try await rows.unlocks.put(Sample.unlock("finger", on: "laptop"), triesLeft: 10)
      try await rows.unlocks.put(Sample.unlock("key", on: "key"), triesLeft: 10)
      let at = Sample.now + .seconds(2)
      let before = try await rows.devices.all(usedBy: Sample.id(1), at: at)
      let renamed = [
        try await rows.sessions.change(of: Sample.id(1), onDevice: "key", label: label, at: at),
        try await rows.sessions.change(of: Sample.id(1), onDevice: "expired", label: label, at: at),
        try await rows.sessions.change(of: Sample.id(1), onDevice: "foreign", label: label, at: at),
      ]
      try await rows.devices.change("key", label: label)
      try await rows.devices.change("screen", label: label)
      let labels = [try await rows.devices.label(of: "key"), try await rows.devices.label(of: "screen")]
      let after = try await rows.devices.all(usedBy: Sample.id(1), at: at)
      return (before, renamed, after, labels + [try await rows.sessions.find(Sample.id(1))?.device.label])
    }
    func known(_ key: String, _ label: String?, _ sessions: Int, from: Int = 0, to: Int = 0) -> KnownDevice {
      KnownDevice(
        keyThumbprint: key, label: label, platform: key == "laptop" ? nil : "android",
        osVersion: key == "key" ? "17" : nil, appVersion: key == "key" ? "2" : nil, firstSeenAt: now + .seconds(from),
        lastSeenAt: now + .seconds(to), sessions: sessions)
    }
    let others = [known("laptop", nil, 0), known("screen", "Phone", 1)]
    #expect(found.0 == [known("key", "Phone", 2, from: -9, to: 5)] + others)
    #expect(found.1 == [2, 0, 0] && found.3 == [label, nil, label])
    #expect(found.2 == [known("key", "Ada's", 2, from: -9, to: 5)] + others)
  }

  @Test("C20: a chore has one claim, which is found, replaced and removed", arguments: Engine.allCases)
  func upkeep(_ engine: Engine) async throws {
    let store = try await Store(engine)
    func claim(_ number: UInt8) -> UpkeepClaim {
      UpkeepClaim(
        holder: OpaqueIDValue(from: RandomSource { [UInt8](repeating: number, count: $0) }),
        until: Sample.now + .seconds(Int(number)))
    }
    let claims = [claim(1), claim(2), claim(3)]
    let found = try await store.write { rows throws(StorageError) in
      var found = [try await rows.upkeep.lock("one")]
      try await rows.upkeep.put(claims[0], "one")
      try await rows.upkeep.put(claims[1], "two")
      found.append(try await rows.upkeep.lock("one"))
      try await rows.upkeep.put(claims[2], "one")
      found += [try await rows.upkeep.lock("one"), try await rows.upkeep.lock("two")]
      try await rows.upkeep.remove("one")
      found += [try await rows.upkeep.lock("one"), try await rows.upkeep.lock("two")]
      return found
    }
    #expect(found == [nil, claims[0], claims[2], claims[1], nil, claims[1]])
  }

  @Test("C20: purges are due in their order, count their tries, and go one by one", arguments: Engine.allCases)
  func purges(_ engine: Engine) async throws {
    let store = try await Store(engine)
    let found = try await store.write { rows throws(StorageError) in
      try await rows.purges.insert(Sample.id(1), dueAt: Sample.now + .seconds(2))
      try await rows.purges.insert(Sample.id(2), dueAt: Sample.now + .seconds(1))
      var found = [
        try await rows.purges.due(at: Sample.now, limit: 9),
        try await rows.purges.due(at: Sample.now + .seconds(2), limit: 9),
        try await rows.purges.lockDue(at: Sample.now + .seconds(2), limit: 1),
      ]
      try await rows.purges.change(Sample.id(2), attempts: 3, dueAt: Sample.now + .seconds(9))
      found.append(try await rows.purges.due(at: Sample.now + .seconds(9), limit: 9))
      try await rows.purges.remove(Sample.id(1))
      found.append(
        [try await rows.purges.lock(Sample.id(2)), try await rows.purges.lock(Sample.id(1))].compactMap { $0 })
      return found
    }
    let (one, two) = (
      PendingPurge(subject: Sample.id(1), attempts: 0), PendingPurge(subject: Sample.id(2), attempts: 0)
    )
    let again = PendingPurge(subject: Sample.id(2), attempts: 3)
    #expect(found == [[], [two, one], [two], [one, again], [again]])
    let error = await #expect(throws: StorageError.self) {
      try await store.write { rows throws(StorageError) in try await rows.purges.insert(Sample.id(2), dueAt: Sample.now)
      }
    }
    #expect(error?.isUniqueViolation == true)
  }

  @Test(
    "C20: a subject that goes is taken from its devices; one that was nobody else's goes", arguments: Engine.allCases)
  func removeUses(_ engine: Engine) async throws {
    let store = try await Store(engine)
    let devices = try ["own", "shared", "account's"].map { try Sample.registration($0) }
    let hint = LastLoginHint(method: .password, accountMask: "a***", at: now)
    let found = try await store.write { rows throws(StorageError) in
      for device in devices { try await rows.devices.put(device, counter: nil, newGuest: nil, at: Sample.now) }
      for key in ["own", "shared"] { try await rows.devices.change(key, guest: Sample.id(1)) }
      for key in ["shared", "account's"] { try await rows.devices.change(key, lastAccount: Sample.id(2), hint) }
      try await rows.devices.remove(usesOf: Sample.id(1))
      let first = [
        try await rows.devices.find("own"), try await rows.devices.find("shared"),
        try await rows.devices.find("account's"),
      ]
      try await rows.devices.remove(usesOf: Sample.id(2))
      return first + [try await rows.devices.find("shared"), try await rows.devices.find("account's")]
    }
    let used = StoredDevice(lastAccount: Sample.id(2), lastLogin: hint)
    #expect(found == [nil, used, used, StoredDevice(), StoredDevice()])
  }

  @Test(
    "C20: a device is stored with its new guest, and stays that one's until it is another's", arguments: Engine.allCases
  )
  func newGuests(_ engine: Engine) async throws {
    let store = try await Store(engine)
    let device = try Sample.registration("key")
    let guests = try await store.write { rows throws(StorageError) in
      var guests: [SubjectID?] = []
      for guest in [nil, Sample.id(1), nil, Sample.id(2)] as [SubjectID?] {
        try await rows.devices.put(device, counter: nil, newGuest: guest, at: Sample.now)
        guests.append(try await rows.devices.find("key")?.guest)
      }
      return guests
    }
    #expect(guests == [nil, Sample.id(1), Sample.id(1), Sample.id(2)])
  }

  @Test(
    "C20: a device keeps what it did not say again, and its counter until it says another", arguments: Engine.allCases)
  func devices(_ engine: Engine) async throws {
    let store = try await Store(engine)
    let device = try Sample.registration("key")
    let hint = LastLoginHint(method: .password, accountMask: "a***", at: now)
    let found = try await store.write { rows throws(StorageError) in
      var found = [try await rows.devices.lock("key")]
      try await rows.devices.put(device, counter: ProofCounter(first: 3), newGuest: nil, at: Sample.now)
      try await rows.devices.change("key", guest: Sample.id(1))
      try await rows.devices.change("key", lastAccount: Sample.id(2), hint)
      try await rows.devices.put(device, counter: nil, newGuest: nil, at: Sample.now)
      found.append(try await rows.devices.find("key"))
      try await rows.devices.change("key", clonedAt: Sample.now)
      found.append(try await rows.devices.find("key"))
      try await rows.devices.resetCounter("key")
      try await rows.devices.change("key", guest: nil)
      found.append(try await rows.devices.lock("key"))
      try await rows.devices.change("absent", guest: Sample.id(1))
      found.append(try await rows.devices.find("absent"))
      return found
    }
    var known = StoredDevice(
      guest: Sample.id(1), lastAccount: Sample.id(2), lastLogin: hint, counter: ProofCounter(first: 3))
    #expect(found[0] == nil && found[1] == known)
    known.isCloned = true
    #expect(found[2] == known)
    #expect(found[3] == StoredDevice(lastAccount: Sample.id(2), lastLogin: hint) && found[4] == nil)
  }

  @Test("C20: a guest is taken from all its devices, or from one if that has it", arguments: Engine.allCases)
  func removeGuest(_ engine: Engine) async throws {
    let store = try await Store(engine)
    let devices = try ["one", "two", "three"].map { try Sample.registration($0) }
    let found = try await store.write { rows throws(StorageError) in
      for device in devices {
        try await rows.devices.put(device, counter: nil, newGuest: nil, at: Sample.now)
        try await rows.devices.change(
          device.keyThumbprint, guest: device.keyThumbprint == "three" ? Sample.id(2) : Sample.id(1))
      }
      try await rows.devices.removeGuest(Sample.id(1), from: "three")
      try await rows.devices.removeGuest(Sample.id(1), from: "one")
      var guests = [try await rows.devices.find("one")?.guest, try await rows.devices.find("three")?.guest]
      try await rows.devices.removeGuest(Sample.id(1))
      guests += [try await rows.devices.find("two")?.guest, try await rows.devices.find("three")?.guest]
      return guests
    }
    #expect(found == [nil, Sample.id(2), nil, Sample.id(2)])
  }

  @Test("C20: who uses a device moves to its new key, and is no more of the old one", arguments: Engine.allCases)
  func moveDevice(_ engine: Engine) async throws {
    let store = try await Store(engine)
    let (old, new) = (try Sample.registration("old"), try Sample.registration("new"))
    let hint = LastLoginHint(method: .password, accountMask: "a***", at: now)
    let found = try await store.write { rows throws(StorageError) in
      try await rows.devices.put(old, counter: ProofCounter(first: 3), newGuest: nil, at: Sample.now)
      try await rows.devices.put(new, counter: nil, newGuest: nil, at: Sample.now)
      try await rows.devices.change("old", guest: Sample.id(1))
      try await rows.devices.change("old", lastAccount: Sample.id(2), hint)
      try await rows.devices.move("old", to: "new")
      try await rows.devices.move("absent", to: "new")
      return [try await rows.devices.find("old"), try await rows.devices.find("new")]
    }
    #expect(found[0] == StoredDevice(counter: ProofCounter(first: 3)))
    #expect(found[1] == StoredDevice(guest: Sample.id(1), lastAccount: Sample.id(2), lastLogin: hint))
  }

  @Test("C20: an identifier leads to one account; it is removed from that one only", arguments: Engine.allCases)
  func identities(_ engine: Engine) async throws {
    let store = try await Store(engine)
    let (text, identity) = (try Sample.identifier("ada@example.com"), try Sample.identity("ada@example.com"))
    let second = try Sample.identity("+4915112345678", at: now + .seconds(1))
    let found = try await store.write { rows throws(StorageError) in
      let inserted = [
        try await rows.identities.insert(second, secretHash: nil, of: Sample.id(1)),
        try await rows.identities.insert(identity, secretHash: nil, of: Sample.id(1)),
        try await rows.identities.insert(identity, secretHash: "other", of: Sample.id(2)),
      ]
      let all = try await rows.identities.all(of: Sample.id(1))
      let first = try await rows.identities.first(of: Sample.id(1))
      let owners = [try await rows.identities.find(text)?.owner, try await rows.identities.lock(text)?.owner]
      let removed = [
        try await rows.identities.remove(.email, "ada@example.com", of: Sample.id(2)),
        try await rows.identities.remove(.email, "ada@example.com", of: Sample.id(1)),
        try await rows.identities.remove(.email, "ada@example.com", of: Sample.id(1)),
      ]
      let gone = try await rows.identities.find(text) == nil
      try await rows.identities.remove(of: Sample.id(2))
      let kept = try await rows.identities.all(of: Sample.id(1)).count
      try await rows.identities.remove(of: Sample.id(1))
      let none = try await rows.identities.first(of: Sample.id(3)) == nil
      let left = try await rows.identities.all(of: Sample.id(1)).count
      return (inserted, all, first, owners, removed, gone && none && kept == 1 && left == 0)
    }
    #expect(found.0 == [true, true, false])
    #expect(found.1 == [identity, second] && found.2 == identity)
    #expect(found.3 == [Sample.id(1), Sample.id(1)])
    #expect(found.4 == [false, true, false])
    #expect(found.5)
  }

  @Test("C20: an address is verified where it leads, and an account's password is found", arguments: Engine.allCases)
  func verifiedAndPassword(_ engine: Engine) async throws {
    let store = try await Store(engine)
    let (text, identity) = (try Sample.identifier("ada@example.com"), try Sample.identity("ada@example.com"))
    let other = try Sample.identifier("bob@example.com")
    let found = try await store.write { rows throws(StorageError) in
      _ = try await rows.identities.insert(identity, secretHash: nil, of: Sample.id(1))
      try await rows.identities.change(text, verifiedAt: Sample.now + .seconds(7))
      try await rows.identities.change(other, verifiedAt: Sample.now)
      var passwords = [try await rows.identities.findPassword(of: Sample.id(1))]
      try await rows.identities.putPassword("first", of: Sample.id(1), at: Sample.now)
      passwords += [
        try await rows.identities.findPassword(of: Sample.id(1)),
        try await rows.identities.lockPassword(of: Sample.id(1)),
        try await rows.identities.lockPassword(of: Sample.id(2)),
      ]
      try await rows.identities.removePassword(of: Sample.id(1))
      try await rows.identities.removePassword(of: Sample.id(2))
      passwords.append(try await rows.identities.findPassword(of: Sample.id(1)))
      return (
        try await rows.identities.find(text)?.identity.verifiedAt, try await rows.identities.find(other) == nil,
        passwords
      )
    }
    #expect(found.0 == now + .seconds(7) && found.1)
    #expect(found.2 == [nil, "first", "first", nil, nil])
  }

  @Test("C20: the secret behind an identifier is its own, or else its account's password", arguments: Engine.allCases)
  func secrets(_ engine: Engine) async throws {
    let store = try await Store(engine)
    let (email, name) = (try Sample.identifier("ada@example.com"), try Sample.identifier("ada"))
    let identities = [try Sample.identity("ada@example.com", verified: true), try Sample.identity("ada")]
    let unproven = try Sample.identity("bob@example.com")
    let bob = try Sample.identifier("bob@example.com")
    let found = try await store.write { rows throws(StorageError) in
      for identity in identities { _ = try await rows.identities.insert(identity, secretHash: nil, of: Sample.id(1)) }
      _ = try await rows.identities.insert(unproven, secretHash: nil, of: Sample.id(2))
      var found = [try await rows.identities.account(for: email)]
      try await rows.identities.putPassword("first", of: Sample.id(1), at: Sample.now)
      try await rows.identities.putPassword("second", of: Sample.id(1), at: Sample.now)
      try await rows.identities.change(name, secretHash: "own")
      found += [
        try await rows.identities.account(for: email), try await rows.identities.account(for: name),
        try await rows.identities.account(for: bob),
      ]
      return found
    }
    #expect(
      found == [
        PasswordAccount(subject: Sample.id(1), passwordHash: nil, isProven: true),
        PasswordAccount(subject: Sample.id(1), passwordHash: "second", isProven: true),
        PasswordAccount(subject: Sample.id(1), passwordHash: "own", isProven: true),
        PasswordAccount(subject: Sample.id(2), passwordHash: nil, isProven: false),
      ])
  }
}
