import GRPC
import LatchkeyModel
import LatchkeyProtos
import Testing

@testable import MigrationService

@Suite("Sessions that were given little")
struct ScopeTests {
  @Test("R26: an account asks for a dozen plans in a minute, however many sessions ask, and nobody else waits for it")
  func plans() async throws {
    try await MigratorHarness.run { migrator in
      let (guest, ada) = (try migrator.person(isGuest: true), try migrator.person(isGuest: false))
      for _ in 0..<12 { _ = try await migrator.plan(guest, into: ada) }
      let refused = await expectRefusal(.resourceExhausted, "TOO_MANY_ATTEMPTS") {
        try await migrator.plan(guest, into: ada)
      }
      #expect(refused?.details.retryAfter != nil)
      _ = try await migrator.plan(guest, into: try migrator.person(isGuest: false))
      // Identity plans for whom it lets in, by limits of its own.
      _ = try await migrator.plan(guest, into: ada, options: migrator.service)
    }
  }

  @Test("S16, R36, R45: without a scope nobody touches a record, and with basic alone nobody asks about a merge")
  func narrow() async throws {
    try await MigratorHarness.run { migrator in
      let id = SubjectID(from: migrator.core.random)
      func options(_ scope: String) throws -> CallOptions {
        let token = try migrator.token(of: id, isGuest: false, scope: scope)
        return CallOptions(metadata: ["authorization": "Bearer \(token)"], timeout: .seconds(20))
      }
      let (empty, basic) = (try options(""), try options("basic"))
      await expectRefusal(.permissionDenied, "INSUFFICIENT_SCOPE") {
        try await migrator.records.listRecords(.init(collection: "cart"), options: empty)
      }
      await expectRefusal(.permissionDenied, "INSUFFICIENT_SCOPE") {
        try await migrator.records.getRecord(.init(), options: empty)
      }
      await expectRefusal(.permissionDenied, "INSUFFICIENT_SCOPE") {
        try await migrator.records.deleteRecord(.init(), options: empty)
      }
      await expectRefusal(.permissionDenied, "INSUFFICIENT_SCOPE") {
        try await migrator.migrations.listMigrations(.init(), options: basic)
      }
      await expectRefusal(.permissionDenied, "INSUFFICIENT_SCOPE") {
        try await migrator.migrations.getMigration(.init(), options: basic)
      }
      await expectRefusal(.permissionDenied, "INSUFFICIENT_SCOPE") {
        try await migrator.migrations.planMigration(.init(), options: try options("basic profile"))
      }
      _ = try await migrator.records.listCollections(.init(), options: basic)
    }
  }
}
