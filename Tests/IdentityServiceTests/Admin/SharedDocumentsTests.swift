import GRPC
import LatchkeyModel
import LatchkeyProtos
import StoragePostgreSQL
import Synchronization
import TestSupport
import Testing

@testable import IdentityService

@Suite("What operators write where several instances have it")
struct SharedDocumentsTests {
  private final class Flag: Sendable {
    private let state = Mutex(false)

    var isSet: Bool { state.withLock { $0 } }

    func set() { state.withLock { $0 = true } }
  }

  /// Committed, and not answered.
  private static let terminateWaitingCommits =
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'"
  private static let waitingCommits = "SELECT 1 FROM pg_stat_activity WHERE wait_event = 'SyncRep'"

  @Test("C5: policies that are in force by a commit that was not answered are on record as well, once")
  func unanswered() async throws {
    let server = try PostgreSQLServer()
    let url = try server.database()
    let database = try await PostgreSQLDatabase.open(url: PostgreSQLURL(url), schema: .identity, connections: 2)
    let harness = try await IdentityHarness(
      folder: try TemporaryFolder(), storage: PostgreSQLIdentityStorage(database))
    try server.set("synchronous_standby_names = 'nobody'")
    var versions = 0
    var isLost = false
    // The setting is in force some time after it is made: what is written before that is answered.
    while !isLost, versions < 40 {
      versions += 1
      let (isOver, version) = (Flag(), versions + 1)
      let change = Task {
        defer { isOver.set() }
        _ = try await harness.admin.setDocument(
          IdentityV1.SetDocumentRequest(
            document: .policies,
            json: #"{"version":\#(version),"updates":[{"minimum":"1.0","url":"https://example.com"}]}"#),
          options: .service)
      }
      while !isOver.isSet, !isLost { isLost = try await database.find(Self.waitingCommits, []) { _ in true } ?? false }
      if isLost {
        try server.run(sql: Self.terminateWaitingCommits, in: url)
        try server.set("synchronous_standby_names = ''")
      }
      try await change.value
    }
    #expect(isLost)
    let events = try await harness.audit.listAuditEvents(
      IdentityV1.ListAuditEventsRequest(limit: 1000), options: .service
    ).events.filter { $0.kind == "admin_changed" }
    #expect(events.map(\.detail) == Array(repeating: "changed the policies", count: versions))
  }
}
