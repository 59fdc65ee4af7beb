import LatchkeyModel
import Storage
import Testing

@Suite("C20: what owners are yet to be told is the same rows in every engine")
struct NoticeRowsTests {
  private static let now = Sample.now

  private func notice(_ key: String, to recipient: String, after seconds: Int = 0) throws -> OwnerNotice {
    OwnerNotice(
      key: key, .passwordChanged, to: try Sample.identifier(recipient), locale: LanguageTag("de"),
      at: Self.now + .seconds(seconds))
  }

  @Test(
    "C20: notices of a channel are taken one of each recipient, in their order, the one due first at the front",
    arguments: Engine.allCases)
  func lines(_ engine: Engine) async throws {
    let store = try await Store(engine)
    let (ada1, ada2) = (try notice("b", to: "ada@example.com"), try notice("c", to: "ada@example.com"))
    let (bob, phone) = (try notice("a", to: "bob@example.com", after: 9), try notice("d", to: "+4915112345678"))
    let found = try await store.write { rows throws(StorageError) in
      for one in [ada2, ada1] { try await rows.notices.insert(one, dueAt: Self.now) }
      try await rows.notices.insert(bob, dueAt: Self.now - .seconds(1))
      try await rows.notices.insert(phone, dueAt: Self.now + .seconds(1))
      var found = [
        try await rows.notices.lockDue(on: .mail, at: Self.now, limit: 9),
        try await rows.notices.lockDue(on: .mail, at: Self.now, limit: 1),
      ]
      try await rows.notices.change("b", attempts: 3, dueAt: Self.now + .seconds(5))
      // Whoever is first and not due holds up those behind it, and nobody else.
      found.append(try await rows.notices.lockDue(on: .mail, at: Self.now + .seconds(1), limit: 9))
      found.append(try await rows.notices.lockDue(on: .mail, at: Self.now + .seconds(5), limit: 9))
      for key in ["b", "absent"] { try await rows.notices.remove(key) }
      found.append(try await rows.notices.lockDue(on: .mail, at: Self.now, limit: 9))
      for seconds in 0...1 {
        found.append(try await rows.notices.lockDue(on: .phone, at: Self.now + .seconds(seconds), limit: 9))
      }
      return found
    }
    var again = ada1
    again.attempts = 3
    #expect(found == [[bob, ada1], [bob], [bob], [bob, again], [bob, ada2], [], [phone]])
  }

  @Test("C20: of a recipient's notices the newest stay, of all those from before a time go", arguments: Engine.allCases)
  func bounds(_ engine: Engine) async throws {
    let store = try await Store(engine)
    let notices = try (1...4).map { try notice("ada \($0)", to: "ada@example.com", after: $0) }
    let other = try notice("bob", to: "bob@example.com")
    let found = try await store.write { rows throws(StorageError) in
      for one in notices + [other] { try await rows.notices.insert(one, dueAt: Self.now) }
      var counts = [try await rows.notices.remove(to: notices[0].recipient, allBut: 3)]
      let first = try await rows.notices.lockDue(on: .mail, at: Self.now, limit: 9)
      for limit in [1, 1, 9] {
        counts.append(try await rows.notices.remove(before: Self.now + .seconds(4), limit: limit))
      }
      return (counts, first, try await rows.notices.lockDue(on: .mail, at: Self.now, limit: 9))
    }
    #expect(found.0 == [1, 1, 1, 1])
    #expect(found.1.map(\.key) == ["ada 2", "bob"] && found.2 == [notices[3]])
  }

  @Test(
    "C20: a second notice with the same key is refused, and nothing of its change is there", arguments: Engine.allCases)
  func twice(_ engine: Engine) async throws {
    let store = try await Store(engine)
    let (one, other) = (try notice("key", to: "ada@example.com"), try notice("key", to: "bob@example.com"))
    try await store.write { rows throws(StorageError) in try await rows.notices.insert(one, dueAt: Self.now) }
    await #expect(throws: StorageError.self) {
      try await store.write { rows throws(StorageError) in
        _ = try await rows.notices.remove(before: Self.now + .seconds(1), limit: 9)
        for notice in [one, other] { try await rows.notices.insert(notice, dueAt: Self.now) }
      }
    }
    let left = try await store.write { rows throws(StorageError) in
      try await rows.notices.lockDue(on: .mail, at: Self.now, limit: 9)
    }
    #expect(left == [one])
  }
}
