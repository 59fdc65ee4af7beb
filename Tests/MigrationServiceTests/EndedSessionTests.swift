import Domain
import GRPC
import LatchkeyProtos
import Testing

@testable import MigrationService

@Suite("Sessions that end while they are used")
struct EndedSessionTests {
  @Test("R15: a watch of a migration ends with its caller's session")
  func watch() async throws {
    try await MigratorHarness.run(switcher: ScriptedSwitch(failures: 1_000_000)) { harness in
      let (guest, account) = (try harness.person(isGuest: true), try harness.person(isGuest: false))
      try await harness.put([MigratorHarness.record("cart", "a")], as: guest)
      let id = try await harness.start(try await harness.plan(guest, into: account), options: account.options)
      let watched = Task { try await harness.states(id, options: account.options) }
      try await Task.sleep(for: .milliseconds(300))
      let start = ContinuousClock.now
      harness.sessions.end(account)
      await expectRefusal(.unauthenticated, "SESSION_REVOKED") { try await watched.value }
      // Not by the time that the migration takes, which has none here.
      #expect(ContinuousClock.now - start < .seconds(30))
    }
  }

  @Test("R15: an upload ends with the session that it was begun in; what was acknowledged stays")
  func upload() async throws {
    try await MigratorHarness.run { harness in
      let guest = try harness.person(isGuest: true)
      await expectRefusal(.unauthenticated, "SESSION_REVOKED") {
        _ = try await harness.records.putRecords(options: guest.options) { writer throws(RPCError) in
          try await writer.write(MigrationV1.PutRecordsRequest(records: [MigratorHarness.record("cart", "a")]))
          while ((try? await harness.core.domain.look(CountRecords(of: guest.id)).count) ?? 0) < 1 {
            try? await Task.sleep(for: .milliseconds(10))
          }
          harness.sessions.end(guest)
          try await writer.write(MigrationV1.PutRecordsRequest(records: [MigratorHarness.record("cart", "b")]))
        }
      }
      #expect(try await harness.core.domain.look(CountRecords(of: guest.id)).count == 1)
    }
  }
}
