import Domain
import GRPC
import LatchkeyModel
import LatchkeyProtos
import TestSupport
import Testing

@testable import MigrationService

@Suite("Migrators over one PostgreSQL")
struct InstancesTests {
  @Test("C14: who watches at one instance sees what another does, and why it does not go on there")
  func watchedElsewhere() async throws {
    let database = try PostgreSQLServer.shared().database()
    let switcher = ScriptedSwitch(refusal: RPCError(.notFound, "no such route"))
    let working = try await MigratorHarness(switcher: switcher, postgreSQL: database)
    let watching = try await MigratorHarness(
      key: working.key, clock: working.clock, postgreSQL: database, isWorking: false)
    let (guest, account) = (try working.person(isGuest: true), try working.person(isGuest: false))
    try await working.put([MigratorHarness.record("cart", "a"), MigratorHarness.record("cart", "b")], as: guest)
    let plan = try await working.plan(guest, into: account)
    let id = try await working.start(plan, options: account.options)
    let states = try await watching.migrations.watchMigration(
      MigrationV1.WatchMigrationRequest(migrationID: id), options: account.options
    ) { responses throws(RPCError) in
      var states: [MigrationV1.Migration] = []
      for try await response in responses {
        guard let migration = response.migration else { continue }
        states.append(migration)
        if migration.failure.contains("no such route") { switcher.relent() }
      }
      return states
    }
    #expect(states.contains { $0.state == .running && $0.failure.contains("no such route") })
    #expect(states.last?.state == .done && states.last?.report.map(\.moved) == [2])
    await watching.stop()
    await working.stop()
  }

  @Test("C14: an instance that stops gives back what it holds, and the next one does it")
  func stopped() async throws {
    let database = try PostgreSQLServer.shared().database()
    let switcher = ScriptedSwitch(refusal: RPCError(.notFound, "no such route"))
    let first = try await MigratorHarness(switcher: switcher, postgreSQL: database)
    let (guest, account) = (try first.person(isGuest: true), try first.person(isGuest: false))
    try await first.put([MigratorHarness.record("cart", "a")], as: guest)
    let plan = try await first.plan(guest, into: account)
    // Stands still in the midst of SWITCH.
    switcher.hold()
    let id = try await first.start(plan, options: account.options)
    while switcher.calls.isEmpty { try await Task.sleep(for: .milliseconds(10)) }
    let migration = try #require(MigrationID(id))
    let second = try await MigratorHarness(
      key: first.key, clock: first.clock, postgreSQL: database, isWorking: false)
    let held = try await second.core.domain.look(FindStandings([migration]))[migration]
    #expect(held?.claim != nil && held?.migration.state == .switching)
    await first.stop()
    let left = try await second.core.domain.look(FindStandings([migration]))[migration]
    #expect(left?.claim == nil && left?.migration.state == .switching && left?.failures == 0)
    await second.stop()
    let third = try await MigratorHarness(key: first.key, clock: first.clock, postgreSQL: database)
    #expect(try await third.states(id, options: account.options).last?.state == .done)
    #expect(third.switcher.calls.count == 1)
    await third.stop()
  }

  @Test("C14: a migrator that stood still in SWITCH until the merge was taken back leaves it so")
  func stoodStill() async throws {
    let database = try PostgreSQLServer.shared().database()
    let first = try await MigratorHarness(postgreSQL: database, isWorking: false)
    let (guest, account) = (try first.person(isGuest: true), try first.person(isGuest: false))
    try await first.put([MigratorHarness.record("cart", "a")], as: guest)
    let id = try await first.start(try await first.plan(guest, into: account), options: account.options)
    first.switcher.hold()
    let worker = MigrationWorker(first.core, subjects: first.switcher)
    let switcher = first.switcher
    let work = Task {
      // A slow machine needs several turns to come so far.
      while try await worker.workOnce(), switcher.calls.isEmpty {}
    }
    while first.switcher.calls.isEmpty { try await Task.sleep(for: .milliseconds(10)) }
    // Its claim runs out, another one does it, and somebody takes it back.
    first.clock.advance(by: Limits.lease + .seconds(1))
    let second = try await MigratorHarness(key: first.key, clock: first.clock, postgreSQL: database)
    #expect(try await second.states(id, options: account.options).last?.state == .done)
    let request = MigrationV1.UndoMigrationRequest(migrationID: id)
    #expect(try await second.migrations.undoMigration(request, options: account.options).begun)
    #expect(try await second.states(id, options: account.options).last?.state == .undone)
    // It wakes, and hears what identity says then.
    first.switcher.refuse(RPCError(.failedPrecondition, "the migration was taken back", reason: "MIGRATION_RECALLED"))
    first.switcher.release()
    try await work.value
    let migration = try #require(MigrationID(id))
    let left = try await second.core.domain.look(FindStandings([migration]))[migration]
    #expect(left?.failures == 0 && left?.claim == nil)
    if case .undone? = left?.migration.state {} else { Issue.record("it is \(String(describing: left))") }
    let own = try await second.records.listRecords(
      MigrationV1.ListRecordsRequest(collection: "cart"), options: guest.options
    ).records
    #expect(own.map(\.key) == ["a"])
    await second.stop()
    await first.stop()
  }

  @Test("C14: what identity says was taken back is undone where the migrator does not know of that")
  func unknownRecall() async throws {
    let switcher = ScriptedSwitch(
      refusal: RPCError(.failedPrecondition, "the migration was taken back", reason: "MIGRATION_RECALLED"))
    try await MigratorHarness.run(switcher: switcher) { harness in
      let (guest, account) = (try harness.person(isGuest: true), try harness.person(isGuest: false))
      try await harness.put([MigratorHarness.record("cart", "a")], as: guest)
      let end = try await harness.migrate(guest, into: account)
      #expect(end.state == .failed && end.failure.contains("taken back"))
      try await harness.put([MigratorHarness.record("cart", "b")], as: guest)
    }
  }
}
