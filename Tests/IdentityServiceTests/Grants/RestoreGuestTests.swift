import GRPC
import LatchkeyModel
import LatchkeyProtos
import Testing

@testable import IdentityService

@Suite("Merges that are taken back")
struct RestoreGuestTests {
  private struct Scene {
    let harness: IdentityHarness
    let device: TestDevice
    let guest: IdentityV1.IssueGuestResponse
    let account: IdentityV1.RegisterResponse

    var guestSub: String { guest.subject?.sub ?? "" }
    var accountSub: String { account.subject?.sub ?? "" }

    init() async throws {
      harness = try await IdentityHarness()
      device = try TestDevice()
      account = try await harness.register("ada@example.com")
      guest = try await harness.issueGuest(device)
      _ = try await harness.grants.completeMigration(
        IdentityV1.CompleteMigrationRequest(migrationID: "m", guestSub: guestSub, targetSub: accountSub),
        options: .service)
    }

    func restore(
      _ guest: String? = nil, from target: String? = nil, by migration: String = "m"
    ) async throws {
      _ = try await harness.grants.restoreGuest(
        IdentityV1.RestoreGuestRequest(
          migrationID: migration, guestSub: guest ?? guestSub, targetSub: target ?? accountSub), options: .service)
    }
  }

  @Test("R39: a guest whose merge is taken back is found again by its device's key, and on record")
  func restored() async throws {
    let scene = try await Scene()
    try await scene.restore()
    // Saying it again changes nothing.
    try await scene.restore()
    let again = try await scene.harness.issueGuest(scene.device)
    #expect(again.subject?.sub == scene.guestSub && again.subject?.isGuest == true && !again.created)
    // The sessions that it had ended with the merge.
    #expect(try await !scene.harness.isActive(try scene.guest.tokens.orThrow().accessToken))
    let log = try await scene.harness.audit.listAuditEvents(
      IdentityV1.ListAuditEventsRequest(sub: scene.guestSub), options: .service
    ).events.map(\.kind)
    #expect(log.count { $0 == "guest_restored" } == 1)
    // It can go into an account like any other.
    #expect(
      try await scene.harness.register("new@example.com", guest: again.tokens).accountChange?.promoted == true)
    try await scene.restore()
    await expectRefusal(.failedPrecondition, "GUEST_GONE") { try await scene.restore(by: "another") }
  }

  @Test("C14: what was taken back is not switched once more, and the refusal says so")
  func recalled() async throws {
    let scene = try await Scene()
    try await scene.restore()
    await expectRefusal(.failedPrecondition, "MIGRATION_RECALLED") {
      _ = try await scene.harness.grants.completeMigration(
        IdentityV1.CompleteMigrationRequest(
          migrationID: "m", guestSub: scene.guestSub, targetSub: scene.accountSub),
        options: .service)
    }
    #expect(try await scene.harness.issueGuest(scene.device).subject?.sub == scene.guestSub)
  }

  @Test("G2: one device has one guest: where another lives by now, the one before stays merged")
  func replaced() async throws {
    let scene = try await Scene()
    let other = try await scene.harness.issueGuest(scene.device)
    #expect(other.created && other.subject?.sub != scene.guestSub)
    await expectRefusal(.failedPrecondition, "GUEST_REPLACED") { try await scene.restore() }
    #expect(try await scene.harness.issueGuest(scene.device).subject?.sub == other.subject?.sub)
  }

  @Test("R39: nobody is made a guest of whom that was not said, and only the migrator says it")
  func refused() async throws {
    let scene = try await Scene()
    await expectRefusal(.failedPrecondition, "GUEST_GONE") { try await scene.restore(from: scene.guestSub) }
    await expectRefusal(.failedPrecondition, "GUEST_GONE") { try await scene.restore(scene.accountSub) }
    await expectRefusal(.notFound, "GUEST_NOT_FOUND") {
      try await scene.restore(SubjectID(from: scene.harness.core.random).description)
    }
    await expectRefusal(.permissionDenied, "SERVICE_ONLY") {
      try await scene.harness.channel.begin(
        IdentityV1.GrantServiceMethod.restoreGuest.rpc, options: .bearer(scene.account.tokens))
    }
  }
}
