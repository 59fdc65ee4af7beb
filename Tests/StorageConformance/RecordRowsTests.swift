import LatchkeyModel
import Storage
import TestSupport
import Testing

@Suite("C20: records are the same rows in every engine")
struct RecordRowsTests {
  private let owner: SubjectID = Sample.id(1)
  private let other: SubjectID = Sample.id(2)

  @Test(
    "C20: who has records is found as it was put, also to be locked, and no other is", arguments: Engine.allCases)
  func owners(_ engine: Engine) async throws {
    let store = try await MigrationStore(engine)
    var full = RecordOwner()
    (full.version, full.records, full.bytes) = (9, 3, 70)
    (full.migration, full.isMigrated, full.isDeleted, full.isGuest) = (Sample.id(5), true, true, true)
    let (first, second) = (RecordOwner(), full)
    let found = try await store.write { rows throws(StorageError) in
      var found: [RecordOwner?] = []
      for owner in [first, second, first] {
        try await rows.owners.put(owner, Sample.id(1))
        found += [try await rows.owners.find(Sample.id(1)), try await rows.owners.lock(Sample.id(1))]
      }
      return found + [try await rows.owners.find(Sample.id(2)), try await rows.owners.lock(Sample.id(2))]
    }
    #expect(found == [first, first, second, second, first, first, nil, nil])
  }

  @Test("R54, C20: what guests store together is summed, whatever becomes of them", arguments: Engine.allCases)
  func costOfGuests(_ engine: Engine) async throws {
    let store = try await MigrationStore(engine)
    // Records, bytes, and whether they are a guest's.
    let puts: [(UInt8, Int, Int, Bool)] = [
      (1, 2, 10, true), (2, 5, 50, false), (2, 5, 50, true), (1, 1, 4, true), (3, 9, 9, true), (1, 1, 4, false),
      (3, 0, 0, true), (2, 5, 51, true),
    ]
    let found = try await store.write { rows throws(StorageError) in
      var found = [try await rows.owners.costOfGuests()]
      for (number, records, bytes, isGuest) in puts {
        var owner = RecordOwner()
        (owner.records, owner.bytes, owner.isGuest) = (records, bytes, isGuest)
        try await rows.owners.put(owner, Sample.id(number))
        found.append(try await rows.owners.costOfGuests())
      }
      return found
    }
    let each = [(0, 0), (2, 10), (2, 10), (7, 60), (6, 54), (15, 63), (14, 59), (5, 50), (5, 51)]
    #expect(found == each.map { RecordBounds.cost(records: $0.0, bytes: $0.1) })
  }

  @Test("C20: of forty that add to an owner at once none is lost", arguments: Engine.allCases)
  func fortyOwners(_ engine: Engine) async throws {
    let store = try await MigrationStore(engine)
    try await withThrowingTaskGroup(of: Void.self) { group in
      for _ in 0..<40 {
        group.addTask {
          try await store.write { rows throws(StorageError) in
            var owner = try await rows.owners.lock(Sample.id(1)) ?? RecordOwner()
            owner.version += 1
            try await rows.owners.put(owner, Sample.id(1))
          }
        }
      }
      try await group.waitForAll()
    }
    let owner = try await store.read { rows throws(StorageError) in try await rows.owners.find(Sample.id(1)) }
    #expect(owner?.version == 40)
  }

  @Test("C20: counts are in the order of names, and of none there is no row", arguments: Engine.allCases)
  func counts(_ engine: Engine) async throws {
    let store = try await MigrationStore(engine)
    let (cart, history) = (try Sample.name("a").collection, try Sample.name("a", in: "history").collection)
    let found = try await store.write { rows throws(StorageError) in
      var found: [[CollectionCount]] = []
      for (count, collection) in [(2, history), (3, cart), (5, history), (0, cart), (0, cart)] {
        try await rows.counts.put(count, collection, of: Sample.id(1))
        found.append(try await rows.counts.all(of: Sample.id(1)))
      }
      try await rows.counts.put(1, cart, of: Sample.id(2))
      let numbers = [
        try await rows.counts.find(history, of: Sample.id(1)), try await rows.counts.find(cart, of: Sample.id(1)),
        try await rows.counts.count(of: Sample.id(1)), try await rows.counts.count(of: Sample.id(3)),
      ]
      try await rows.counts.remove(of: Sample.id(1))
      found += [try await rows.counts.all(of: Sample.id(1)), try await rows.counts.all(of: Sample.id(2))]
      return (found, numbers)
    }
    func counts(_ cartCount: Int, _ historyCount: Int) -> [CollectionCount] {
      [CollectionCount(collection: cart, count: cartCount), CollectionCount(collection: history, count: historyCount)]
        .filter { $0.count > 0 }
    }
    #expect(found.0 == [counts(0, 2), counts(3, 2), counts(3, 5), counts(0, 5), counts(0, 5), [], counts(1, 0)])
    #expect(found.1 == [5, 0, 1, 0])
    try await store.expectFailure({ $0.fault == .constraint(.check) }) { rows throws(StorageError) in
      try await rows.counts.put(-1, cart, of: Sample.id(1))
    }
  }

  @Test(
    "C20: records are written in a batch, keep when they were born, and are another subject's never",
    arguments: Engine.allCases)
  func write(_ engine: Engine) async throws {
    let store = try await MigrationStore(engine)
    let (a, b, absent) = (try Sample.name("a"), try Sample.name("b"), try Sample.name("c"))
    let found = try await store.write { rows throws(StorageError) in
      // The second of these takes the place of the first.
      try await rows.records.write(
        [
          Sample.record(a, Sample.content(1), revision: 1), Sample.record(b, Sample.content(0), revision: 2),
          Sample.record(a, Sample.content(5), revision: 3, isNew: false),
        ], of: Sample.id(1))
      try await rows.records.write([Sample.record(a, Sample.content(9), revision: 1)], of: Sample.id(2))
      try await rows.records.write([Sample.record(absent, revision: 4, isNew: false)], of: Sample.id(1))
      var found = try await rows.records.find([a, b, absent, a], of: Sample.id(1))
      found.append(try await rows.records.find(b, of: Sample.id(1)))
      found += try await rows.records.find([], of: Sample.id(1))
      let lengths = try await rows.records.lengths(of: [absent, b, a, a], of: Sample.id(1))
      return (found, lengths)
    }
    let (first, second) = (
      RecordLayers.Held(content: Sample.content(5), revision: 3, born: 1),
      RecordLayers.Held(content: Sample.content(0), revision: 2, born: 2)
    )
    #expect(found.0 == [first, second, nil, first, second])
    #expect(found.1 == [nil, 0, 5, 5])
    try await store.expectFailure({ $0.isUniqueViolation }) { rows throws(StorageError) in
      try await rows.records.write([Sample.record(absent), Sample.record(b)], of: Sample.id(1))
    }
    let left = try await store.read { rows throws(StorageError) in
      try await rows.records.lengths(of: [absent], of: Sample.id(1))
    }
    #expect(left == [nil])
  }

  @Test(
    "M1, C20: keys that differ in any byte are different rows, in the order of bytes", arguments: Engine.allCases)
  func keys(_ engine: Engine) async throws {
    let store = try await MigrationStore(engine)
    let names = try ["e\u{301}", "\u{E9}", "\u{301}", "E", "e", "\u{10000}", "\u{FFFF}"].map { try Sample.name($0) }
    let page = try await store.write { rows throws(StorageError) in
      let writes = names.enumerated().map { Sample.record($1, Sample.content($0), revision: Int64($0)) }
      try await rows.records.write(writes, of: Sample.id(1))
      _ = try await rows.records.remove([names[4]], of: Sample.id(1))
      return try await rows.records.page(
        names[0].collection, of: Sample.id(1), in: .keys(after: nil), count: 99, bytes: .max)
    }
    #expect(page.records.map(\.name) == names.filter { $0 != names[4] }.sorted())
  }

  @Test(
    "C20: a page goes on where the last ended, in both orders, bounded by count and bytes, with what another has",
    arguments: Engine.allCases)
  func pages(_ engine: Engine) async throws {
    let store = try await MigrationStore(engine)
    let collection = try Sample.name("a").collection
    let writes = try (0..<23).map { number in
      Sample.record(
        try Sample.name("k\(number)"), Sample.content(10, at: Int64(number % 4)), revision: Int64(number + 1))
    }
    let shared = writes.filter { $0.revision % 3 == 0 }
    let aside = Sample.record(try Sample.name("k", in: "other"))
    try await store.write { rows throws(StorageError) in
      try await rows.records.write(writes + [aside], of: Sample.id(1))
      try await rows.records.write(shared, of: Sample.id(2))
    }
    let records = writes.map { Record(name: $0.draft.name, content: $0.draft.content, revision: $0.revision) }
    let newest = records.sorted { ($1.content.updatedAt, $1.name) < ($0.content.updatedAt, $0.name) }
    let byKey = records.sorted { $0.name < $1.name }
    for (isNewest, expected) in [(true, newest), (false, byKey)] {
      for count in [1, 7, 22, 23, 24] {
        var seen: [RecordPair] = []
        var hasMore = true
        while hasMore {
          let last = seen.last?.record
          let order: RecordOrder = isNewest ? .newest(beyond: last?.position) : .keys(after: last?.name.key)
          let (page, pairs) = try await store.read { rows throws(StorageError) in
            (
              try await rows.records.page(collection, of: Sample.id(1), in: order, count: count, bytes: .max),
              try await rows.records.pairs(
                collection, of: Sample.id(1), with: Sample.id(2), in: order, count: count, bytes: .max)
            )
          }
          #expect(pairs.pairs.map(\.record) == page.records && pairs.hasMore == page.hasMore)
          #expect(page.records.count <= count)
          seen += pairs.pairs
          hasMore = page.hasMore && !page.records.isEmpty
        }
        #expect(seen.map(\.record) == expected)
        for pair in seen { #expect(pair.other == (pair.record.revision % 3 == 0 ? pair.record : nil)) }
      }
    }
    let bounded = try await store.read { rows throws(StorageError) in
      var counts: [Int] = []
      // One of `k0` to `k9` has twelve bytes with its key.
      for bytes in [0, 12, 23, 24] {
        counts.append(
          try await rows.records.page(
            collection, of: Sample.id(1), in: .keys(after: nil), count: 99, bytes: bytes
          ).records.count)
      }
      return counts
    }
    #expect(bounded == [1, 1, 1, 2])
  }

  @Test(
    "C20: what two subjects share is counted, with the numbers that cannot be added", arguments: Engine.allCases)
  func overlap(_ engine: Engine) async throws {
    let store = try await MigrationStore(engine)
    let numbers: [(Int64, Int64, Bool)] = [
      (.max, 1, true), (.max, 0, false), (.min, -1, true), (.min, 0, false), (.max, .min, false), (1, .max, true),
      (-1, .min, true), (5, 6, false), (.min, .min, true),
    ]
    let names = try numbers.indices.map { try Sample.name("k\($0)") }
    let alone = try Sample.name("alone")
    let found = try await store.write { rows throws(StorageError) in
      for (name, number) in zip(names, numbers) {
        try await rows.records.write([Sample.record(name, Sample.content(number: number.0))], of: Sample.id(1))
        try await rows.records.write([Sample.record(name, Sample.content(number: number.1))], of: Sample.id(2))
      }
      try await rows.records.write([Sample.record(alone, Sample.content(number: .max))], of: Sample.id(1))
      return try await rows.records.overlap(alone.collection, of: Sample.id(1), with: Sample.id(2))
    }
    #expect(found.shared == numbers.count && found.overflowing == numbers.count { $0.2 })
  }

  @Test("C20: records are removed by name, or the first of a subject", arguments: Engine.allCases)
  func remove(_ engine: Engine) async throws {
    let store = try await MigrationStore(engine)
    let names = try ["d", "b", "c", "a"].map { try Sample.name($0) } + [try Sample.name("a", in: "zoo")]
    let absent = try Sample.name("absent")
    let found = try await store.write { rows throws(StorageError) in
      try await rows.records.write(names.map { Sample.record($0) }, of: Sample.id(1))
      try await rows.records.write([Sample.record(names[0])], of: Sample.id(2))
      let removals = [
        try await rows.records.remove([], of: Sample.id(1)),
        try await rows.records.remove([names[2], absent], of: Sample.id(1)),
        try await rows.records.remove([names[2]], of: Sample.id(1)),
      ]
      let some = try await rows.records.remove(of: Sample.id(1), limit: 2)
      let left = try await rows.records.lengths(of: names, of: Sample.id(1)).map { $0 != nil }
      let rest = try await rows.records.remove(of: Sample.id(1), limit: 99)
      let theirs = try await rows.records.lengths(of: names, of: Sample.id(2)).map { $0 != nil }
      return (removals, [some, rest], left, theirs)
    }
    #expect(found.0 == [0, 1, 0] && found.1 == [2, 2])
    #expect(found.2 == [true, false, false, false, true])
    #expect(found.3 == [true, false, false, false, false])
  }

  @Test("C20: of forty that write the same new record at once one succeeds", arguments: Engine.allCases)
  func fortyRecords(_ engine: Engine) async throws {
    let store = try await MigrationStore(engine)
    let name = try Sample.name("a")
    let wins = await withTaskGroup(of: Bool.self) { group in
      for number in 1...40 as ClosedRange<Int64> {
        group.addTask {
          let done: Void? = try? await store.write { rows throws(StorageError) in
            try await rows.records.write([Sample.record(name, revision: number)], of: Sample.id(1))
          }
          return done != nil
        }
      }
      return await group.reduce(0) { $0 + ($1 ? 1 : 0) }
    }
    #expect(wins == 1)
  }
}
