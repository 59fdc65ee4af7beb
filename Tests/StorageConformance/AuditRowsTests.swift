import LatchkeyModel
import Storage
import Testing

@Suite("C20: the audit log is the same rows in every engine")
struct AuditRowsTests {
  private let link = [UInt8](repeating: 7, count: 32)

  /// Appends to a chain of the engine's, and says what is there then.
  private func append(_ notes: [AuditNote], to store: Store) async throws -> [AuditEvent] {
    let link = link
    return try await store.write { rows throws(StorageError) in
      var end = try await rows.audit.lockEnd()
      var events: [AuditEvent] = []
      for note in notes {
        end = AuditEnd(chain: end.chain, number: end.number + 1, link: link)
        events.append(
          AuditEvent(sequence: end.number, chain: end.chain, number: end.number, note: note, link: link))
      }
      try await rows.audit.insert(events)
      return events
    }
  }

  @Test(
    "C20: what is appended goes on where a chain ends, and is found by its place and chain", arguments: Engine.allCases)
  func append(_ engine: Engine) async throws {
    let store = try await Store(engine)
    #expect(try await store.read { rows throws(StorageError) in try await rows.audit.ends() } == [])
    var second = AuditNote(.sessionEnded, at: Sample.now, subject: Sample.id(1), session: Sample.id(2), detail: "x")
    second.address = "192.0.2.1"
    let notes = [AuditNote(.sessionBegan, at: Sample.now), second, AuditNote(.sessionBegan, at: Sample.now)]
    let events = try await append(notes, to: store)
    let chain = events[0].chain
    let listed = try await store.read { rows throws(StorageError) in
      [
        try await rows.audit.events(after: 0, of: nil, limit: 2),
        try await rows.audit.events(after: events[0].sequence, of: nil, limit: 9),
        try await rows.audit.events(after: 0, of: Sample.id(1), limit: 9),
        try await rows.audit.events(after: 0, of: Sample.id(9), limit: 9),
        try await rows.audit.events(of: chain, after: 1, limit: 1),
        try await rows.audit.events(of: chain + 1, after: 0, limit: 9),
      ]
    }
    let some = Array(events[1...])
    #expect(listed == [Array(events[..<2]), some, [events[1]], [], [events[1]], []])
    let found = try await store.read { rows throws(StorageError) in
      [
        try await rows.audit.count(of: .sessionBegan), try await rows.audit.count(of: .sessionEnded),
        try await rows.audit.count(of: .accountDeleted),
      ]
    }
    #expect(found == [2, 1, 0])
    let ends = try await store.read { rows throws(StorageError) in try await rows.audit.ends() }
    #expect(ends == [AuditEnd(events[2])])
    let error = await #expect(throws: StorageError.self) {
      try await store.write { rows throws(StorageError) in try await rows.audit.insert([events[2]]) }
    }
    #expect(error?.isUniqueViolation == true)
  }

  @Test("C10: an event of a kind that only a newer release knows is read and sealed", arguments: Engine.allCases)
  func newer(_ engine: Engine) async throws {
    let store = try await Store(engine)
    let kind = AuditNote.Kind(rawValue: "of_a_newer_release")
    let notes = [AuditNote(.sessionBegan, at: Sample.now), AuditNote(kind, at: Sample.now)]
    let events = try await append(notes, to: store)
    let found = try await store.read { rows throws(StorageError) in
      try await rows.audit.events(after: 0, of: nil, limit: 9)
    }
    #expect(found == events && found.last?.note.kind.rawValue == "of_a_newer_release")
    let unsealed = try await store.read { rows throws(StorageError) in try await rows.audit.unsealed(after: nil) }
    // Of an engine with one chain nothing needs sealing.
    #expect(unsealed.map(\.note.kind) == (engine == .postgresql ? [kind] : []))
  }

  @Test("C20: a chain goes on from its checkpoint, and each has its own", arguments: Engine.allCases)
  func checkpoints(_ engine: Engine) async throws {
    let store = try await Store(engine)
    let events = try await append((0..<3).map { _ in AuditNote(.sessionBegan, at: Sample.now) }, to: store)
    let chain = events[0].chain
    func checkpoint(_ number: Int64) -> AuditCheckpoint {
      AuditCheckpoint(chain: chain, number: number, link: link, seal: [UInt8](repeating: UInt8(number), count: 32))
    }
    let both = [checkpoint(1), checkpoint(3)]
    let found = try await store.write { rows throws(StorageError) in
      var found = [try await rows.audit.checkpoint(of: chain)]
      var ends: [AuditEnd] = []
      for one in both {
        try await rows.audit.remove(of: chain + 1, through: 9)
        try await rows.audit.remove(of: chain, through: one.number)
        try await rows.audit.put(one, at: Sample.now)
        found += [try await rows.audit.checkpoint(of: chain), try await rows.audit.checkpoint(of: chain + 1)]
        ends += try await rows.audit.ends()
      }
      return (found, ends, try await rows.audit.checkpoints())
    }
    #expect(found.0 == [nil, both[0], nil, both[1], nil] && found.2 == [both[1]])
    #expect(found.1 == [AuditEnd(events[2]), both[1].end])
    try await store.write { rows throws(StorageError) in try await rows.audit.removeCheckpoints(before: Sample.now) }
    #expect(try await store.read { rows throws(StorageError) in try await rows.audit.checkpoints() } == [both[1]])
  }

  @Test("C18: those who append at once have chains of their own, whose ends are found; seals need none")
  func chains() async throws {
    let store = try await Store(.postgresql)
    for _ in 0..<5 {
      try await withThrowingTaskGroup(of: Void.self) { group in
        for _ in 0..<8 {
          group.addTask { _ = try await append([AuditNote(.sessionBegan, at: Sample.now)], to: store) }
        }
        try await group.waitForAll()
      }
    }
    let seal = try await append([AuditNote(.logSealed, at: Sample.now)], to: store)[0]
    let (all, ends, unsealed) = try await store.read { rows throws(StorageError) in
      (
        try await rows.audit.events(after: 0, of: nil, limit: 99), try await rows.audit.ends(),
        try await rows.audit.unsealed(after: nil)
      )
    }
    #expect(all.count == 41 && all.map(\.sequence) == all.map(\.sequence).sorted())
    let chains = Dictionary(grouping: all, by: \.chain)
    #expect(ends.map(\.chain) == chains.keys.sorted())
    for end in ends {
      #expect(chains[end.chain]?.map(\.number) == Array(1...end.number))
      let last = end.chain == seal.chain ? end.number - 1 : end.number
      #expect(unsealed.first { $0.chain == end.chain }?.number ?? 0 == last)
    }
    let later = try await store.read { rows throws(StorageError) in
      try await rows.audit.unsealed(after: all[all.count - 3].sequence)
    }
    #expect(later.map(\.sequence) == [all[all.count - 2].sequence])
  }
}
