import LatchkeyModel
import Storage
import Testing

@Suite("C20: what moves with a guest is the same rows in every engine")
struct MergeRowsTests {
  private let now = Sample.now

  @Test("C20: progress is kept for each subject and guide, and goes with its subject", arguments: Engine.allCases)
  func guides(_ engine: Engine) async throws {
    let store = try await Store(engine)
    let (first, second) = (try #require(GuideID("first")), try #require(GuideID("second")))
    func progress(_ guide: GuideID, _ revision: Int64) -> StoredGuideProgress {
      StoredGuideProgress(
        guide: guide,
        progress: GuideProgress(status: .active, position: 1, step: second, revision: revision),
        updatedAt: now + .seconds(Int(revision)))
    }
    let (one, newer, other) = (progress(first, 1), progress(first, 2), progress(second, 1))
    let found = try await store.write { rows throws(StorageError) in
      var found = [try await rows.guides.lock(first, of: Sample.id(1))]
      for row in [other, one, newer] { try await rows.guides.put(row, of: Sample.id(1)) }
      try await rows.guides.put(one, of: Sample.id(2))
      found += [
        try await rows.guides.find(first, of: Sample.id(1)), try await rows.guides.lock(second, of: Sample.id(1)),
        try await rows.guides.find(second, of: Sample.id(2)),
      ]
      let all = try await rows.guides.all(of: Sample.id(1))
      try await rows.guides.remove(of: Sample.id(1))
      return (found, all, try await rows.guides.all(of: Sample.id(1)), try await rows.guides.all(of: Sample.id(2)))
    }
    #expect(found.0 == [nil, newer, other, nil])
    #expect(found.1 == [newer, other] && found.2 == [] && found.3 == [one])
  }

  @Test("C20: wanted merges are due in the order of their times, and not before", arguments: Engine.allCases)
  func due(_ engine: Engine) async throws {
    let store = try await Store(engine)
    let (late, early) = (Sample.merge(1, guest: 10), Sample.merge(2, guest: 11))
    let found = try await store.write { rows throws(StorageError) in
      try await rows.merges.insert(late, dueAt: Sample.now + .seconds(20), at: Sample.now)
      try await rows.merges.insert(early, dueAt: Sample.now + .seconds(10), at: Sample.now)
      var found: [[PendingMerge]] = []
      for (seconds, limit) in [(9, 10), (10, 10), (20, 10), (20, 1)] {
        let due = try await rows.merges.due(at: Sample.now + .seconds(seconds), limit: limit)
        found.append(due)
        found.append(try await rows.merges.lockDue(at: Sample.now + .seconds(seconds), limit: limit))
      }
      return found
    }
    #expect(found == [[], [], [early], [early], [early, late], [early, late], [early], [early]])
  }

  @Test(
    "C20: a merge keeps its plan, its tries and how far it came; one that is over is open no more, and makes room",
    arguments: Engine.allCases)
  func progress(_ engine: Engine) async throws {
    let store = try await Store(engine)
    let first = Sample.merge(1, guest: 10)
    var tried = first
    (tried.attempts, tried.lastError) = (1, "down")
    tried.plan = PendingMerge.Plan(id: "plan", digest: "digest")
    var started = tried
    (started.state, started.migration, started.lastError) = (.started, "migration", nil)
    var abandoned = started
    (abandoned.state, abandoned.lastError) = (.abandoned, "gone")
    let (second, third, last) = (tried, started, abandoned)
    let again = Sample.merge(2, guest: 10)
    let found = try await store.write { rows throws(StorageError) in
      try await rows.merges.insert(first, dueAt: Sample.now, at: Sample.now)
      try await rows.merges.change(first.id, plan: PendingMerge.Plan(id: "plan", digest: "digest"))
      try await rows.merges.change(second, dueAt: Sample.now + .seconds(5))
      var found = [try await rows.merges.lock(first.id)]
      found.append(try await rows.merges.due(at: Sample.now + .seconds(4), limit: 9).first)
      found.append(try await rows.merges.due(at: Sample.now + .seconds(5), limit: 9).first)
      try await rows.merges.change(third, at: Sample.now)
      found += [try await rows.merges.open(of: first.guest), try await rows.merges.find(first.id)]
      found.append(try await rows.merges.due(at: Sample.now + .seconds(5), limit: 9).first)
      try await rows.merges.change(last, at: Sample.now)
      found += [try await rows.merges.open(of: first.guest), try await rows.merges.lock(first.id)]
      try await rows.merges.insert(again, dueAt: Sample.now, at: Sample.now)
      try await rows.merges.change(again.id, plan: nil)
      found += [try await rows.merges.open(of: first.guest), try await rows.merges.lock(Sample.id(9))]
      return found
    }
    #expect(found == [second, nil, second, third, third, nil, nil, last, again, nil])
  }

  @Test("C20: where a guest was is kept when it is one no longer, and moves with the key", arguments: Engine.allCases)
  func mergedGuests(_ engine: Engine) async throws {
    let store = try await Store(engine)
    let devices = try ["one", "two", "new"].map { try Sample.registration($0) }
    let found = try await store.write { rows throws(StorageError) in
      for device in devices { try await rows.devices.put(device, counter: nil, newGuest: nil, at: Sample.now) }
      for key in ["two", "one"] { try await rows.devices.change(key, guest: Sample.id(1)) }
      let keys = [
        try await rows.devices.keys(ofGuest: Sample.id(1)), try await rows.devices.keys(ofGuest: Sample.id(2)),
      ]
      for key in keys[0] { try await rows.mergedGuests.put(Sample.id(1), onDevice: key, at: Sample.now) }
      try await rows.mergedGuests.put(Sample.id(1), onDevice: "one", at: Sample.now + .seconds(1))
      try await rows.mergedGuests.put(Sample.id(2), onDevice: "one", at: Sample.now)
      try await rows.devices.move("one", to: "new")
      let moved = try await rows.mergedGuests.devices(of: Sample.id(1))
      try await rows.mergedGuests.remove(of: Sample.id(1))
      return keys + [
        moved, try await rows.mergedGuests.devices(of: Sample.id(1)),
        try await rows.mergedGuests.devices(of: Sample.id(2)),
      ]
    }
    #expect(found == [["one", "two"], [], ["new", "two"], [], ["new"]])
  }

  @Test("C20: a migration that was taken back is known by its guest and number", arguments: Engine.allCases)
  func recalledMerges(_ engine: Engine) async throws {
    let store = try await Store(engine)
    let found = try await store.write { rows throws(StorageError) in
      func known() async throws(StorageError) -> [Bool] {
        [
          try await rows.mergedGuests.isRecalled("one", of: Sample.id(1)),
          try await rows.mergedGuests.isRecalled("two", of: Sample.id(1)),
          try await rows.mergedGuests.isRecalled("one", of: Sample.id(2)),
        ]
      }
      var found = [try await known()]
      for _ in 0..<2 { try await rows.mergedGuests.recall("one", of: Sample.id(1), at: Sample.now) }
      try await rows.mergedGuests.recall("two", of: Sample.id(1), at: Sample.now)
      try await rows.mergedGuests.recall("one", of: Sample.id(2), at: Sample.now)
      found.append(try await known())
      // Neither the end of a merge nor time has it forgotten.
      try await rows.mergedGuests.remove(of: Sample.id(1))
      _ = try await rows.mergedGuests.remove(before: Sample.now + .seconds(1_000_000), limit: 9)
      found.append(try await known())
      try await rows.mergedGuests.removeRecalls(of: Sample.id(1))
      return found + [try await known()]
    }
    let all = [true, true, true]
    #expect(found == [[false, false, false], all, all, [false, false, true]])
  }
}
