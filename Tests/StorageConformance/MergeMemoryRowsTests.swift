import LatchkeyModel
import Storage
import Testing

@Suite("C20: what merges remember are the same rows in every engine")
struct MergeMemoryRowsTests {
  private let now = Sample.now

  private func merged(
    _ name: RecordName, _ position: Int64, target: RecordKey? = nil, policy: MigrationPolicy? = nil,
    isWritten: Bool = true
  ) -> MergedRecord {
    MergedRecord(
      name: name, outcome: isWritten ? .summed : .kept, position: position, found: position - 1,
      revision: isWritten ? position : nil, old: isWritten ? Sample.content(2, number: position) : nil,
      targetKey: target, policy: policy)
  }

  /// Migrations of several states into account 2, each of which tells of a collection.
  private func insertMigrations(_ states: [(Migration.State, Timestamp?)], in rows: any MigrationTransaction)
    async throws(StorageError)
  {
    for (index, state) in states.enumerated() {
      let number = UInt8(10 + index)
      try await rows.insert(
        Sample.migration(number, of: number + 50, key: "\(index)", state: state.0, undoUntil: state.1))
      if let cart = CollectionName("cart") {
        try await rows.reports.insert(
          [CollectionReport(collection: cart, policy: .sum, maximumRows: nil, sourceCount: 1)], of: Sample.id(number))
      }
    }
  }

  @Test("C20: what became of records is listed by name, once for each", arguments: Engine.allCases)
  func first(_ engine: Engine) async throws {
    let store = try await MigrationStore(engine)
    let (a, b, c) = (try Sample.name("a"), try Sample.name("b"), try Sample.name("a", in: "zoo"))
    let records = [merged(c, 3), merged(b, 2, isWritten: false), merged(a, 1, target: c.key)]
    let found = try await store.write { rows throws(StorageError) in
      try await rows.merged.insert(records, of: Sample.id(10))
      try await rows.merged.insert([records[0]], of: Sample.id(11))
      let lists = [
        try await rows.merged.first(of: Sample.id(10), limit: 2),
        try await rows.merged.first(of: Sample.id(10), limit: 9),
      ]
      try await rows.merged.remove([a, c], of: Sample.id(10))
      return lists + [
        try await rows.merged.first(of: Sample.id(10), limit: 9),
        try await rows.merged.first(of: Sample.id(11), limit: 9),
      ]
    }
    let names = [
      MergedName(name: a, target: RecordName(collection: a.collection, key: c.key), isWritten: true),
      MergedName(name: b, target: b, isWritten: false), MergedName(name: c, target: c, isWritten: true),
    ]
    #expect(found == [Array(names[..<2]), names, [names[1]], [names[2]]])
    let again = records[1]
    try await store.expectFailure({ $0.isUniqueViolation }) { rows throws(StorageError) in
      try await rows.merged.insert([again], of: Sample.id(10))
    }
  }

  @Test(
    "M2, C20: layers of a record are those of merges under way or that can be taken back, by either name",
    arguments: Engine.allCases)
  func layers(_ engine: Engine) async throws {
    let store = try await MigrationStore(engine)
    let now = now
    let id: MigrationID = Sample.id(10)
    let own = try Sample.name("a")
    let appended = RecordName(collection: own.collection, key: try #require(own.key.appended(by: id)))
    let states: [(Migration.State, Timestamp?)] = [
      (.switching, nil), (.done(at: now), now), (.done(at: now), nil), (.failed(.switch, reason: "", at: now), nil),
      (.undone(at: now), nil), (.returning, now),
    ]
    let records = (1...6).map { merged(own, Int64($0), policy: $0 == 2 ? .max : nil) }
    let moved = merged(own, 20, target: appended.key)
    let theirs = merged(appended, 21)
    let aside = MergedRecord(name: try Sample.name("b"), outcome: .asked)
    let found = try await store.write { rows throws(StorageError) in
      try await insertMigrations(states, in: rows)
      for (index, record) in records.enumerated() {
        try await rows.merged.insert([record, aside], of: Sample.id(UInt8(10 + index)))
      }
      try await rows.merged.insert([theirs], of: Sample.id(15))
      let names = [own, appended, aside.name]
      let before = try await rows.merged.layers(of: [own], into: Sample.id(2))
      try await rows.merged.change([moved], of: Sample.id(10))
      let layers = before + (try await rows.merged.layers(of: names, into: Sample.id(2)))
      let theirs = try await rows.merged.layers(of: [own], into: Sample.id(3))
      // The guest of one has its record still, and that of another is kept; 2 bytes were there before each.
      let guest = try await rows.migrations.find(Sample.id(15))?.migration.guest
      try await rows.records.write([Sample.record(own, Sample.content(100))], of: guest ?? Sample.id(2))
      try await rows.records.write([Sample.record(own, Sample.content(30))], of: Sample.id(1))
      _ = try await rows.moved.take(from: Sample.id(1), for: Sample.id(10), count: 1, bytes: 1)
      let weights = try await rows.merged.weights(of: names, into: Sample.id(2))
      #expect(weights.map(\.layers) == layers.dropFirst().map(\.count))
      #expect(weights.map(\.bytes) == [2 * 2 + 100, 2 * 2 + 30, 0])
      let nothing = (
        try await rows.merged.layers(of: [], into: Sample.id(2)),
        try await rows.merged.weights(of: [], into: Sample.id(2))
      )
      #expect(nothing.0.isEmpty && nothing.1.isEmpty)
      return (layers + theirs).map { RecordLayers(held: nil, layers: $0).layers }
    }
    func layer(_ number: UInt8, _ record: MergedRecord) throws -> RecordLayers.Layer {
      RecordLayers.Layer(
        migration: Sample.id(number), source: record.name, policy: record.policy ?? .sum,
        isDecided: record.policy != nil, outcome: record.outcome, position: try #require(record.position),
        found: record.found, revision: record.revision, old: record.old)
    }
    let rest = [try layer(11, records[1]), try layer(15, records[5])]
    #expect(found[0] == [try layer(10, records[0])] + rest)
    #expect(found[1] == rest)
    #expect(found[2] == [try layer(10, moved), try layer(15, theirs)])
    #expect(found[3].isEmpty && found[4].isEmpty)
  }

  @Test(
    "C20: what became of records is changed all at once, and what is forgotten stays forgotten",
    arguments: Engine.allCases)
  func changes(_ engine: Engine) async throws {
    let store = try await MigrationStore(engine)
    let now = now
    let names = try (0..<4).map { try Sample.name("k\($0)") }
    let found = try await store.write { rows throws(StorageError) in
      try await insertMigrations([(.done(at: now), now), (.done(at: now), now)], in: rows)
      let records = names.map { merged($0, 1) }
      try await rows.merged.insert(Array(records[..<3]), of: Sample.id(10))
      try await rows.merged.insert(records, of: Sample.id(11))
      let changed = [
        merged(names[0], 5, policy: .max), MergedRecord(name: names[2], outcome: .refused), merged(names[3], 7),
      ]
      try await rows.merged.change(changed, of: Sample.id(10))
      try await rows.merged.change([], of: Sample.id(10))
      let layers = try await rows.merged.layers(of: names, into: Sample.id(2))
      return (
        layers.map { $0.sorted { $0.migration < $1.migration } },
        try await rows.merged.first(of: Sample.id(10), limit: 9)
      )
    }
    let positions = found.0.map {
      $0.map { "\($0.migration == Sample.id(10) ? "own" : "other") \($0.position) \($0.policy)" }
    }
    #expect(
      positions == [
        ["own 5 \(MigrationPolicy.max)", "other 1 \(MigrationPolicy.sum)"],
        ["own 1 \(MigrationPolicy.sum)", "other 1 \(MigrationPolicy.sum)"], ["other 1 \(MigrationPolicy.sum)"],
        ["other 1 \(MigrationPolicy.sum)"],
      ])
    #expect(found.1.map(\.name) == Array(names[..<3]) && found.1.map(\.isWritten) == [true, true, false])
  }

  @Test("C20: what is kept is removed in parts, of a merge and of all into an account", arguments: Engine.allCases)
  func removal(_ engine: Engine) async throws {
    let store = try await MigrationStore(engine)
    let now = now
    let names = try (0..<5).map { try Sample.name("k\($0)") }
    let found = try await store.write { rows throws(StorageError) in
      try await insertMigrations([(.done(at: now), nil), (.done(at: now), nil)], in: rows)
      try await rows.insert(Sample.migration(30, of: 9, into: 3))
      for (number, guest) in [(10, 60), (11, 61), (30, 9)] as [(UInt8, UInt8)] {
        try await rows.merged.insert(names.map { MergedRecord(name: $0, outcome: .moved) }, of: Sample.id(number))
        try await rows.setAside.insert(
          names.map { SetAsideRecord(name: $0, content: Sample.content(), reason: .ask) }, of: Sample.id(number))
        try await rows.records.write(names.map { Sample.record($0) }, of: Sample.id(guest))
        _ = try await rows.moved.take(from: Sample.id(guest), for: Sample.id(number), count: 99, bytes: .max)
      }
      var counts: [[Int]] = []
      for limit in [2, 99] {
        counts.append([
          try await rows.merged.remove(of: Sample.id(10), limit: limit),
          try await rows.setAside.remove(of: Sample.id(10), limit: limit),
          try await rows.moved.remove(of: Sample.id(10), limit: limit),
        ])
      }
      for limit in [2, 99, 99] {
        counts.append([
          try await rows.merged.remove(into: Sample.id(2), limit: limit),
          try await rows.setAside.remove(into: Sample.id(2), limit: limit),
          try await rows.moved.remove(into: Sample.id(2), limit: limit),
        ])
      }
      counts.append([
        try await rows.merged.first(of: Sample.id(30), limit: 99).count,
        try await rows.setAside.page(
          of: Sample.id(30), beyond: nil, with: Sample.id(3), count: 99, bytes: .max
        ).conflicts.count,
        try await rows.moved.first(of: Sample.id(30), count: 99, bytes: .max).count,
      ])
      return counts
    }
    #expect(found == [2, 3, 2, 3, 0, 5].map { [$0, $0, $0] })
  }

  @Test(
    "M7, C20: a recount finds what is missing, foreign or lost in its stretch, and goes on",
    arguments: Engine.allCases)
  func recount(_ engine: Engine) async throws {
    let store = try await MigrationStore(engine)
    let names = try (0..<6).map { try Sample.name("k\($0)", in: $0 < 3 ? "cart" : "list") }
    let outcomes: [MergeOutcome?] = [.moved, .asked, .refused, nil, .kept, .moved]
    let foreign = try Sample.name("x", in: "list")
    let found = try await store.write { rows throws(StorageError) in
      try await rows.insert(Sample.migration(10))
      try await rows.records.write(names.map { Sample.record($0) }, of: Sample.id(1))
      for (name, outcome) in zip(names, outcomes) {
        if let outcome { try await rows.merged.insert([MergedRecord(name: name, outcome: outcome)], of: Sample.id(10)) }
      }
      try await rows.merged.insert([MergedRecord(name: foreign, outcome: .kept)], of: Sample.id(10))
      try await rows.setAside.insert(
        [SetAsideRecord(name: names[1], content: Sample.content(), reason: .ask)], of: Sample.id(10))
      var found: [Recount] = []
      repeat {
        found.append(
          try await rows.merged.recount(Sample.id(10), of: Sample.id(1), beyond: found.last?.end, count: 3))
      } while found.last?.end != nil
      return found
    }
    var expected = [Recount(), Recount(), Recount()]
    (expected[0].end, expected[0].lost) = (names[2], 1)
    expected[0].outcomes = [names[0].collection: [.moved: 1, .asked: 1, .refused: 1]]
    (expected[1].end, expected[1].unmerged) = (names[5], 1)
    expected[1].outcomes = [foreign.collection: [.kept: 1, .moved: 1]]
    expected[2].foreign = 1
    expected[2].outcomes = [foreign.collection: [.kept: 1]]
    #expect(found == expected)
  }

  @Test("C20: what is set aside is listed by name with what the account has, in pages", arguments: Engine.allCases)
  func setAside(_ engine: Engine) async throws {
    let store = try await MigrationStore(engine)
    let names = try ["c", "a", "b"].map { try Sample.name($0) } + [try Sample.name("\u{301}", in: "zoo")]
    let reasons: [ConflictReason] = [.ask, .noRoom, .overflow, .noKey]
    try await store.write { rows throws(StorageError) in
      try await rows.insert(Sample.migration(10))
      try await rows.setAside.insert(
        zip(names, reasons).map { SetAsideRecord(name: $0, content: Sample.content(5), reason: $1) }, of: Sample.id(10))
      try await rows.records.write([Sample.record(names[1], Sample.content(4), revision: 8)], of: Sample.id(2))
    }
    let expected = zip(names, reasons).map { name, reason in
      MigrationConflict(
        name: name, reason: reason, guest: Sample.content(5),
        account: name == names[1] ? Record(name: name, content: Sample.content(4), revision: 8) : nil)
    }.sorted { $0.name < $1.name }
    for (count, bytes) in [(1, Int.max), (3, .max), (4, .max), (9, 0), (9, 25)] {
      var seen: [MigrationConflict] = []
      var hasMore = true
      while hasMore {
        let last = seen.last?.name
        let page = try await store.read { rows throws(StorageError) in
          try await rows.setAside.page(of: Sample.id(10), beyond: last, with: Sample.id(2), count: count, bytes: bytes)
        }
        #expect(page.conflicts.count <= count && !page.conflicts.isEmpty)
        if bytes == 0 { #expect(page.conflicts.count == 1) }
        // 5 and 4 bytes of values and 5 of the name, then 5 and 5.
        if bytes == 25 && last == nil { #expect(page.conflicts.count == 2) }
        seen += page.conflicts
        hasMore = page.hasMore && !page.conflicts.isEmpty
      }
      #expect(seen == expected)
    }
    let sizes = try await store.read { rows throws(StorageError) in
      var sizes: [[Int]] = []
      for (account, limit) in [(2 as UInt8, 9), (2, 3), (3, 9)] {
        let size = try await rows.setAside.size(into: Sample.id(account), limit: limit)
        sizes.append([size.records, size.bytes])
      }
      return sizes
    }
    #expect(sizes == [[4, 20], [3, 15], [0, 0]])
    let found = try await store.write { rows throws(StorageError) in
      let before = try await rows.setAside.find(names[0], of: Sample.id(10))
      try await rows.setAside.remove(names[0], of: Sample.id(10))
      return [before, try await rows.setAside.find(names[0], of: Sample.id(10))]
    }
    #expect(found == [Sample.content(5), nil])
    try await store.expectFailure({ $0.isUniqueViolation }) { rows throws(StorageError) in
      try await rows.setAside.insert(
        [SetAsideRecord(name: names[1], content: Sample.content(), reason: .ask)], of: Sample.id(10))
    }
  }

  @Test(
    "C20: a guest's first records are taken by count and bytes, and are nobody's then but the merge's",
    arguments: Engine.allCases)
  func moved(_ engine: Engine) async throws {
    let store = try await MigrationStore(engine)
    let names = try (0..<6).map { try Sample.name("k\($0)") }
    let absent = try Sample.name("absent")
    let found = try await store.write { rows throws(StorageError) in
      try await rows.records.write(names.map { Sample.record($0, Sample.content(10)) }, of: Sample.id(1))
      var taken: [Int] = []
      for (count, bytes) in [(2, 100), (9, 11), (9, 1), (9, 100), (9, 100)] {
        taken.append(try await rows.moved.take(from: Sample.id(1), for: Sample.id(10), count: count, bytes: bytes))
      }
      let lists = [
        try await rows.moved.first(of: Sample.id(10), count: 2, bytes: 100),
        try await rows.moved.first(of: Sample.id(10), count: 9, bytes: 21),
        try await rows.moved.first(of: Sample.id(10), count: 9, bytes: 100),
      ].map { $0.map(\.name) }
      let kept = [
        try await rows.moved.find([names[3], absent, names[0]], of: Sample.id(10)),
        try await rows.moved.find([names[3]], of: Sample.id(11)), try await rows.moved.find([], of: Sample.id(10)),
      ]
      try await rows.moved.remove([names[3], names[0]], of: Sample.id(10))
      return (
        taken, lists, kept, try await rows.moved.find([names[3]], of: Sample.id(10)),
        try await rows.records.lengths(of: names, of: Sample.id(1))
      )
    }
    #expect(found.0 == [2, 2, 1, 1, 0])
    #expect(found.1 == [Array(names[..<2]), Array(names[..<3]), names])
    #expect(found.2 == [[Sample.content(10), nil, Sample.content(10)], [nil], []] && found.3 == [nil])
    #expect(found.4 == [nil, nil, nil, nil, nil, nil])
  }
}
