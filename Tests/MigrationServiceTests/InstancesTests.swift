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
}
