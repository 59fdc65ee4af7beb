import Cryptography
import GRPC
import LatchkeyModel
import LatchkeyProtos
import TestSupport
import Testing

@testable import IdentityService

/// What refusals tell an app so that it can help: whether to come back, when, and where to go instead.
@Suite("Refusals")
struct RefusalTests {
  @Test("D9: while the storage is away every call says that it may succeed later, and when to ask again")
  func unavailable() async throws {
    let harness = try await IdentityHarness()
    let device = try TestDevice()
    let request = try device.issueRequest(try await harness.challenge(for: device))
    await harness.database.close()
    let error = await expectRefusal(.unavailable) { try await harness.guests.issueGuest(request) }
    #expect(error?.details.retryAfter == .seconds(1))
    let other = await expectRefusal(.unavailable) { try await harness.register("ada@example.com") }
    #expect(other?.details.retryAfter == .seconds(1))
  }

  @Test("D9: with more sign-ins than can be looked at, the ones too many are told to come back")
  func overloaded() async throws {
    let harness = try await IdentityHarness()
    _ = try await harness.register("ada@example.com")
    harness.core.passwords.stop()
    let error = await expectRefusal(.unavailable) { try await harness.signIn("ada@example.com") }
    #expect(error?.details.retryAfter == .seconds(1))
  }

  @Test("P15: an app that is too old is told where to get a newer one, and a network where the companion app is")
  func links() async throws {
    let folder = try TemporaryFolder()
    let document = """
      {"version": 2, "updates": [{"minimum": "2.0", "url": "https://get.test"}],
       "networks": {"permit": ["10.0.0.0/8"], "companion": {"scheme": "vpn://open", "download": "https://vpn.test"}}}
      """
    try SecretFile.replace("\(folder.path)/policies.json", Array(document.utf8))
    let harness = try await IdentityHarness(folder: folder)
    let error = await expectRefusal(.failedPrecondition, "UPGRADE_REQUIRED") {
      try await harness.auth.authenticate(
        IdentityV1.AuthenticateRequest(clientID: "app.test"),
        options: CallOptions(metadata: ["x-app-version": "1.9"]))
    }
    #expect(error?.details.info.contains(RPCError.KeyValue("update_url", "https://get.test")) == true)
    let access = try await harness.access.checkAccess(IdentityV1.CheckAccessRequest(clientID: "app.test"))
    #expect(access.access == .networkNotPermitted)
    #expect(access.companionApp?.schemeURL == "vpn://open" && access.companionApp?.downloadURL == "https://vpn.test")
  }

  @Test("P15: a session that has ended says so by a reason, and an unknown token by another")
  func reasons() async throws {
    let harness = try await IdentityHarness()
    let account = try await harness.register("ada@example.com").tokens
    _ = try await harness.logOut(account)
    await expectRefusal(.unauthenticated, "SESSION_REVOKED") { try await harness.logOut(account) }
    await expectRefusal(.unauthenticated, "SESSION_REVOKED") { try await harness.refresh(account) }
    harness.clock.advance(by: .seconds(961))
    let other = try await harness.signIn("ada@example.com").tokens
    harness.clock.advance(by: .seconds(961))
    await expectRefusal(.unauthenticated, "TOKEN_EXPIRED") { try await harness.logOut(other) }
  }
}
