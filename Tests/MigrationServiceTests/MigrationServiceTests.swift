import GRPC
import LatchkeyModel
import LatchkeyProtos
import Testing

@testable import MigrationService

@Suite("MigrationService over gRPC")
struct MigrationServiceTests {
  @Test("G13, G14, G16, G17: a guest's records go into the account by the policy of each collection, and are gone then")
  func wholeMigration() async throws {
    try await MigratorHarness.run { migrator in
      let (guest, account) = (try migrator.person(isGuest: true), try migrator.person(isGuest: false))
      try await migrator.put(
        [
          MigratorHarness.record("history", "both", "guest", at: 9), MigratorHarness.record("history", "new", "guest"),
          MigratorHarness.record("cart", "both", number: 2),
          MigratorHarness.record("downloads", "both", "guest", at: 9),
          MigratorHarness.record("favourites", "both"), MigratorHarness.record("favourites", "new"),
          MigratorHarness.record("drafts", "both", "guest"),
        ], as: guest)
      try await migrator.put(
        ["history", "cart", "downloads", "favourites", "drafts"].map {
          MigratorHarness.record($0, "both", "account", number: 3, at: 5)
        }, as: account)
      let plan = try await migrator.plan(
        guest, into: account,
        overrides: [MigrationV1.PolicyOverride(collection: "drafts", policy: .keepSource)])
      #expect(plan.collections.map(\.name) == ["cart", "downloads", "drafts", "favourites", "history"])
      #expect(plan.collections.map(\.conflicts) == [1, 1, 1, 1, 1])
      #expect(plan.collections.map(\.sourceCount) == [1, 1, 1, 2, 2])
      let id = try await migrator.start(plan, options: account.options)
      let states = try await migrator.states(id, options: account.options)
      let end = try #require(states.last)
      #expect(end.state == .done && end.done == 7 && end.total == 7 && end.finishedAt != nil)
      #expect(end.guestSub == guest.id.description && end.targetSub == account.id.description)
      typealias Report = MigrationV1.CollectionReport
      #expect(
        end.report == [
          Report(name: "cart", policy: .sum, summed: 1, targetCount: 1),
          Report(name: "downloads", policy: .keepTarget, kept: 1, targetCount: 1),
          Report(name: "drafts", policy: .keepSource, replaced: 1, targetCount: 1),
          Report(name: "favourites", policy: .unionByKey, moved: 1, summed: 1, targetCount: 2),
          Report(name: "history", policy: .newest, moved: 1, replaced: 1, targetCount: 2),
        ])
      var values: [String: (String, Int64)] = [:]
      for collection in ["history", "cart", "downloads", "favourites", "drafts"] {
        let record = try await migrator.records.getRecord(
          MigrationV1.GetRecordRequest(collection: collection, key: "both"), options: account.options
        ).record
        values[collection] = (String(decoding: record?.value ?? [], as: UTF8.self), record?.number ?? -1)
      }
      #expect(values["history"]?.0 == "guest" && values["downloads"]?.0 == "account" && values["drafts"]?.0 == "guest")
      #expect(values["cart"]?.1 == 5)
      let left = try await migrator.records.listCollections(
        MigrationV1.ListCollectionsRequest(), options: guest.options)
      #expect(left.collections.isEmpty)
      await expectRefusal(.failedPrecondition, "SUBJECT_MIGRATED") {
        try await migrator.put([MigratorHarness.record("cart", "late")], as: guest)
      }
      let calls = migrator.switcher.calls
      #expect(calls.map(\.guest) == [guest.id] && calls.map(\.target) == [account.id])
    }
  }

  @Test("G12: a plan says whether the person signs in on this device for the first time, and the digest covers it")
  func firstLogin() async throws {
    try await MigratorHarness.run { migrator in
      let (guest, account) = (try migrator.person(isGuest: true), try migrator.person(isGuest: false))
      let first = try await migrator.plan(guest, into: account, isFirst: true)
      let other = try await migrator.plan(guest, into: account, isFirst: false)
      #expect(first.firstLoginOnDevice && !other.firstLoginOnDevice)
      #expect(first.digest != other.digest && first.expiresIn == 600)
    }
  }

  @Test("G18: records beyond what the account may hold are refused, the oldest first, and are not lost")
  func entitlement() async throws {
    var rules = CollectionRules.standard
    let downloads = try #require(CollectionName("downloads"))
    rules.rules[downloads] = CollectionRules.Rule(policy: .keepTarget, maximumRows: 3)
    try await MigratorHarness.run(rules: rules) { migrator in
      let (guest, account) = (try migrator.person(isGuest: true), try migrator.person(isGuest: false))
      try await migrator.put(
        (1...5).map { MigratorHarness.record("downloads", "g\($0)", "guest", at: $0) }, as: guest)
      try await migrator.put([MigratorHarness.record("downloads", "mine")], as: account)
      let plan = try await migrator.plan(guest, into: account)
      #expect(plan.collections.map(\.refused) == [3])
      let id = try await migrator.start(plan, options: account.options)
      let end = try #require(try await migrator.states(id, options: account.options).last)
      #expect(end.report.map(\.refused) == [3] && end.report.map(\.moved) == [2] && end.report[0].targetCount == 3)
      let held = try await migrator.records.listRecords(
        MigrationV1.ListRecordsRequest(collection: "downloads"), options: account.options)
      #expect(Set(held.records.map(\.key)) == ["mine", "g5", "g4"])
      let refused = try await migrator.migrations.listConflicts(
        MigrationV1.ListConflictsRequest(migrationID: id), options: account.options
      ).conflicts
      #expect(refused.map(\.key) == ["g1", "g2", "g3"])
      #expect(refused.allSatisfy { $0.guest?.value == Array("guest".utf8) && $0.reason == .noRoom })
    }
  }

  @Test("R39: someone else's guest, a forged proof, or an account in a guest's place is refused")
  func proofs() async throws {
    try await MigratorHarness.run { migrator in
      let (guest, account) = (try migrator.person(isGuest: true), try migrator.person(isGuest: false))
      let stranger = try migrator.person(isGuest: false)
      // A stranger who holds the guest's token still cannot pull the records into somebody's account.
      await expectRefusal(.permissionDenied, "NOT_THE_TARGET") {
        try await migrator.plan(guest, into: account, options: stranger.options)
      }
      await expectRefusal(.permissionDenied, "LOGIN_REQUIRED") {
        try await migrator.plan(guest, into: account, options: guest.options)
      }
      await expectRefusal(.invalidArgument, field: "guest_proof") { try await migrator.plan(stranger, into: account) }
      await expectRefusal(.invalidArgument, field: "target_proof") {
        try await migrator.plan(guest, into: guest, options: account.options)
      }
      // The guest's name alone proves nothing: a token of another key, of another service, an old one, or none.
      let foreign = try await MigratorHarness()
      let forged = try foreign.person(isGuest: true)
      await foreign.stop()
      let misdirected = try migrator.person(isGuest: true, audience: "latchkey-qr")
      for guest in [forged, misdirected] {
        await expectRefusal(.unauthenticated, "TOKEN_INVALID") { try await migrator.plan(guest, into: account) }
      }
      let brief = try migrator.person(isGuest: true, lifetime: .seconds(1))
      let now = try migrator.person(isGuest: false, lifetime: .seconds(3600))
      migrator.clock.advance(by: .seconds(120))
      await expectRefusal(.unauthenticated, "TOKEN_EXPIRED") { try await migrator.plan(brief, into: now) }
      // Identity, which has both sides' agreement, plans on their behalf.
      _ = try await migrator.plan(guest, into: account, options: migrator.service)
    }
  }

  @Test("R40: a plan and a migration are its account's and the services' alone")
  func objectAuthorisation() async throws {
    try await MigratorHarness.run { migrator in
      let (guest, account) = (try migrator.person(isGuest: true), try migrator.person(isGuest: false))
      let stranger = try migrator.person(isGuest: false)
      try await migrator.put([MigratorHarness.record("cart", "apple")], as: guest)
      let plan = try await migrator.plan(guest, into: account)
      await expectRefusal(.notFound, "PLAN_NOT_FOUND") { try await migrator.start(plan, options: stranger.options) }
      let id = try await migrator.start(plan, options: account.options)
      let get = MigrationV1.GetMigrationRequest(migrationID: id)
      await expectRefusal(.notFound, "MIGRATION_NOT_FOUND") {
        try await migrator.migrations.getMigration(get, options: stranger.options)
      }
      await expectRefusal(.notFound, "MIGRATION_NOT_FOUND") {
        try await migrator.states(id, options: stranger.options)
      }
      await expectRefusal(.permissionDenied, "LOGIN_REQUIRED") {
        try await migrator.migrations.getMigration(get, options: guest.options)
      }
      for unknown in ["", "x", String(repeating: "A", count: 22)] {
        await expectRefusal(.notFound, "MIGRATION_NOT_FOUND") {
          try await migrator.migrations.getMigration(
            MigrationV1.GetMigrationRequest(migrationID: unknown), options: account.options)
        }
      }
      #expect(try await migrator.migrations.getMigration(get, options: migrator.service).migration?.migrationID == id)
      #expect(try await migrator.states(id, options: account.options).last?.state == .done)
    }
  }

  @Test("R39: a plan that no longer fits is stale, and starting one twice starts it once")
  func starting() async throws {
    try await MigratorHarness.run { migrator in
      let (guest, account) = (try migrator.person(isGuest: true), try migrator.person(isGuest: false))
      try await migrator.put([MigratorHarness.record("cart", "apple", number: 1)], as: guest)
      let stale = try await migrator.plan(guest, into: account)
      try await migrator.put([MigratorHarness.record("cart", "pear", number: 1)], as: guest)
      await expectRefusal(.aborted, "STALE_PLAN") { try await migrator.start(stale, options: account.options) }
      var altered = try await migrator.plan(guest, into: account)
      let plan = altered
      altered.digest = stale.digest
      await expectRefusal(.aborted, "STALE_PLAN") { try await migrator.start(altered, options: account.options) }
      altered.digest = "short"
      await expectRefusal(.invalidArgument, field: "digest") {
        try await migrator.start(altered, options: account.options)
      }
      await expectRefusal(.invalidArgument, field: "idempotency_key") {
        try await migrator.start(plan, key: "", options: account.options)
      }
      let ids = try await withThrowingTaskGroup(of: String.self) { group in
        for _ in 0..<10 { group.addTask { try await migrator.start(plan, options: account.options) } }
        return try await group.reduce(into: Set<String>()) { $0.insert($1) }
      }
      #expect(ids.count == 1)
      let id = try #require(ids.first)
      #expect(try await migrator.states(id, options: account.options).last?.state == .done)
      #expect(try await migrator.start(plan, options: account.options) == id)
      #expect(migrator.switcher.calls.count == 1)
    }
  }

  @Test("R39: a guest that became an account is not merged into itself by a token of before")
  func intoItself() async throws {
    try await MigratorHarness.run { migrator in
      let account = try migrator.person(isGuest: false)
      let before = MigratorHarness.Person(
        id: account.id, isGuest: true, token: try migrator.token(of: account.id, isGuest: true))
      await expectRefusal(.invalidArgument, field: "guest_proof") { try await migrator.plan(before, into: account) }
    }
  }

  @Test("a policy that this server does not know is refused by name")
  func policies() async throws {
    try await MigratorHarness.run { migrator in
      let (guest, account) = (try migrator.person(isGuest: true), try migrator.person(isGuest: false))
      for policy in [MigrationV1.Policy.unspecified, .unrecognized(99)] {
        await expectRefusal(.invalidArgument, field: "policy_overrides[0].policy") {
          try await migrator.plan(
            guest, into: account, overrides: [MigrationV1.PolicyOverride(collection: "cart", policy: policy)])
        }
      }
      let twice = MigrationV1.PolicyOverride(collection: "cart", policy: .max)
      await expectRefusal(.invalidArgument, field: "policy_overrides[1].collection") {
        try await migrator.plan(guest, into: account, overrides: [twice, twice])
      }
    }
  }

  @Test("G16: while identity does not answer, SWITCH is asked again and the guest's records stay")
  func switchRetries() async throws {
    try await MigratorHarness.run(switcher: ScriptedSwitch(failures: 3)) { migrator in
      let (guest, account) = (try migrator.person(isGuest: true), try migrator.person(isGuest: false))
      try await migrator.put([MigratorHarness.record("cart", "apple", number: 4)], as: guest)
      migrator.switcher.hold()
      let id = try await migrator.start(try await migrator.plan(guest, into: account), options: account.options)
      while migrator.switcher.calls.isEmpty { try await Task.sleep(for: .milliseconds(2)) }
      await expectRefusal(.aborted, "SUBJECT_MIGRATING") {
        try await migrator.put([MigratorHarness.record("cart", "late")], as: guest)
      }
      let kept = try await migrator.records.listCollections(
        MigrationV1.ListCollectionsRequest(), options: guest.options)
      #expect(kept.collections.map(\.count) == [1])
      migrator.switcher.release()
      let states = try await migrator.states(id, options: account.options)
      #expect(states.last?.state == .done && migrator.switcher.calls.count == 4)
      let report = try #require(states.last?.report.first)
      #expect(report.moved == 1 && report.targetCount == 1)
    }
  }

  @Test("R39: a restart in the middle of a migration goes on with it")
  func restart() async throws {
    let switcher = ScriptedSwitch(failures: .max)
    let first = try await MigratorHarness(switcher: switcher)
    let (guest, account) = (try first.person(isGuest: true), try first.person(isGuest: false))
    try await first.put(
      (0..<900).map { MigratorHarness.record("cart", "\($0)", number: 1) }, as: guest)
    try await first.put((0..<900).map { MigratorHarness.record("cart", "\($0)", number: 1) }, as: account)
    let id = try await first.start(try await first.plan(guest, into: account), options: account.options)
    while switcher.calls.isEmpty { try await Task.sleep(for: .milliseconds(2)) }
    await first.stop()
    let second = try await MigratorHarness(folder: first.folder, key: first.key, clock: first.clock)
    let end = try #require(try await second.states(id, options: second.service).last)
    #expect(end.state == .done && end.report.map(\.summed) == [900] && end.report.map(\.targetCount) == [900])
    let page = try await second.records.listRecords(
      MigrationV1.ListRecordsRequest(collection: "cart", pageSize: 1000), options: account.options)
    #expect(page.records.count == 900 && page.records.allSatisfy { $0.number == 2 })
    await second.stop()
  }
}
