import Testing

@testable import LatchkeyClient

@Suite struct GuestTests {
  let harness: Harness

  init() async throws { harness = try await Harness() }

  @Test("G1: who uses the device is unknown, then a guest, by what the store holds")
  func states() async throws {
    #expect(try await harness.device().authState() == .unknown)
    let start = try await harness.startGuest()
    #expect(start.created)
    #expect(try await harness.device().authState() == .guest(start.session))
    #expect(start.session.isGuest)
    #expect(!start.session.storageNamespace.isEmpty)
  }

  @Test("G2: one device has one guest, however often it starts")
  func oneGuest() async throws {
    let first = try await harness.startGuest()
    let second = try await harness.startGuest()
    #expect(!second.created)
    #expect(second.session.subject == first.session.subject)
    #expect(second.session.storageNamespace == first.session.storageNamespace)
  }

  @Test("G2: starts at the same time make one guest")
  func concurrentStarts() async throws {
    try await withThrowingTaskGroup(of: GuestStart.self) { group in
      for _ in 0..<8 { group.addTask { [harness] in try await harness.startGuest() } }
      var subjects: Set<SubjectID> = []
      var created = 0
      for try await start in group {
        subjects.insert(start.session.subject)
        if start.created { created += 1 }
      }
      #expect(subjects.count == 1)
      #expect(created == 1)
    }
  }

  @Test("D4: a lost answer makes no second guest")
  func lostAnswer() async throws {
    harness.channel.inject(.answerLost, into: Harness.issueGuest)
    await #expect(throws: ClientError.self) { try await harness.startGuest() }
    #expect(try await harness.device().deviceRecord()?.registration == .pending)
    let again = try await harness.startGuest()
    #expect(!again.created)
    #expect(try await harness.device().deviceRecord()?.registration == .registered)
  }

  @Test("D4: the key is kept before the first call, the session before the record says registered")
  func journalOrder() async throws {
    _ = try await harness.startGuest()
    #expect(harness.store.changes == ["add device", "save proof-count", "save session", "save device"])
  }

  @Test("D5: a store that cannot be read makes no second key")
  func unreadableStore() async throws {
    let first = try await harness.startGuest()
    let calls = harness.channel.calls.count
    harness.store.fail([.read])
    await #expect(throws: ClientError.self) { try await harness.startGuest() }
    await #expect(throws: ClientError.self) { try await harness.device().authState() }
    #expect(harness.channel.calls.count == calls)
    harness.store.fail([])
    #expect(try await harness.startGuest().session.subject == first.session.subject)
  }

  @Test("D5: a damaged record is reported and never replaced")
  func damagedRecord() async throws {
    _ = try await harness.startGuest()
    try harness.store.files.save(Array("{}".utf8), as: "device")
    await #expect(throws: ClientError.unreadableSecret(name: "device")) { try await harness.startGuest() }
    #expect(try harness.store.files.secret(named: "device") == Array("{}".utf8))
  }

  @Test("G3: a subject prints as nothing that a person could read")
  func subjectHidden() {
    let subject = SubjectID("guest-4711")
    #expect("\(subject)" == "[subject]")
    #expect(String(reflecting: subject) == "[subject]")
  }
}
