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
    let store = try Store(engine)
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
    "C20: a device keeps what it did not say again, and its counter until it says another", arguments: Engine.allCases)
  func devices(_ engine: Engine) async throws {
    let store = try Store(engine)
    let device = try Sample.registration("key")
    let hint = LastLoginHint(method: .password, accountMask: "a***", at: now)
    let found = try await store.write { rows throws(StorageError) in
      var found = [try await rows.devices.lock("key")]
      try await rows.devices.put(device, counter: ProofCounter(first: 3), at: Sample.now)
      try await rows.devices.change("key", guest: Sample.id(1))
      try await rows.devices.change("key", lastAccount: Sample.id(2), hint)
      try await rows.devices.put(device, counter: nil, at: Sample.now)
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
    let store = try Store(engine)
    let devices = try ["one", "two", "three"].map { try Sample.registration($0) }
    let found = try await store.write { rows throws(StorageError) in
      for device in devices {
        try await rows.devices.put(device, counter: nil, at: Sample.now)
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
    let store = try Store(engine)
    let (old, new) = (try Sample.registration("old"), try Sample.registration("new"))
    let hint = LastLoginHint(method: .password, accountMask: "a***", at: now)
    let found = try await store.write { rows throws(StorageError) in
      try await rows.devices.put(old, counter: ProofCounter(first: 3), at: Sample.now)
      try await rows.devices.put(new, counter: nil, at: Sample.now)
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
    let store = try Store(engine)
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
      let none = try await rows.identities.first(of: Sample.id(3)) == nil
      return (inserted, all, first, owners, removed, gone && none)
    }
    #expect(found.0 == [true, true, false])
    #expect(found.1 == [identity, second] && found.2 == identity)
    #expect(found.3 == [Sample.id(1), Sample.id(1)])
    #expect(found.4 == [false, true, false])
    #expect(found.5)
  }

  @Test("C20: the secret behind an identifier is its own, or else its account's password", arguments: Engine.allCases)
  func secrets(_ engine: Engine) async throws {
    let store = try Store(engine)
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
