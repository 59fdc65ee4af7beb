import GRPC
import LatchkeyModel
import LatchkeyProtos
import Synchronization
import TestSupport
import Testing

@testable import MigrationService

@Suite("What identity is told of migrations")
struct IdentitySubjectSwitchTests {
  /// Notes what is asked, and answers nothing else than that it was heard.
  private final class Ear: RPCChannel {
    let failed = Mutex<[IdentityV1.FailMigrationRequest]>([])

    func unary<Request: RPCMessage, Response: RPCMessage>(
      _ method: RPCMethod, _ request: Request, options: CallOptions
    ) async throws(RPCError) -> Response {
      guard let asked = request as? IdentityV1.FailMigrationRequest,
        let answer = IdentityV1.FailMigrationResponse() as? Response
      else { throw RPCError(.unimplemented, method.path) }
      failed.withLock { $0.append(asked) }
      return answer
    }

    func serverStreaming<Request: RPCMessage, Response: RPCMessage, Result: Sendable>(
      _ method: RPCMethod, _ request: Request, options: CallOptions,
      _ body: (ResponseStream<Response>) async throws(RPCError) -> Result
    ) async throws(RPCError) -> Result { throw RPCError(.unimplemented, method.path) }

    func clientStreaming<Request: RPCMessage, Response: RPCMessage>(
      _ method: RPCMethod, options: CallOptions,
      _ send: @escaping @Sendable (RequestWriter<Request>) async throws(RPCError) -> Void
    ) async throws(RPCError) -> Response { throw RPCError(.unimplemented, method.path) }

    func bidirectional<Request: RPCMessage, Response: RPCMessage, Result: Sendable>(
      _ method: RPCMethod, options: CallOptions,
      _ send: @escaping @Sendable (RequestWriter<Request>) async throws(RPCError) -> Void,
      _ body: (ResponseStream<Response>) async throws(RPCError) -> Result
    ) async throws(RPCError) -> Result { throw RPCError(.unimplemented, method.path) }
  }

  @Test("C14: whose a migration was that failed is said by its number, its parties, and what it was started with")
  func failed() async throws {
    let ear = Ear()
    let random = RandomSource { [UInt8](repeating: 7, count: $0) }
    let migration = Migration(
      id: MigrationID(from: random), guest: SubjectID(from: random), target: SubjectID(from: random),
      createdAt: Timestamp(secondsSinceEpoch: 1))
    try await IdentitySubjectSwitch(channel: ear).fail(migration, startedWith: "a wish", reason: "broken")
    let said = try #require(ear.failed.withLock { $0.first })
    #expect(said.migrationID == "\(migration.id)" && said.guestSub == "\(migration.guest)")
    #expect(said.targetSub == "\(migration.target)" && said.reason == "broken" && said.idempotencyKey == "a wish")
  }
}
