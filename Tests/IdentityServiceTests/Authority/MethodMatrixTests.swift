import GRPC
import LatchkeyModel
import LatchkeyProtos
import ServiceRuntime
import Testing

@testable import IdentityService

/// Every method that the service serves, with every kind of credential, through its interceptors.
@Suite("The table of methods")
struct MethodMatrixTests {
  enum Credential: CaseIterable {
    case none, guest, staleGuest, emptyScope, basicScope, screen, unconfirmed, stale, fresh, refreshToken, service
  }

  private struct Bench {
    let harness: IdentityHarness
    let options: [Credential: CallOptions]

    init() async throws {
      let harness = try await IdentityHarness()
      let staleGuest = try await harness.issueGuest(try TestDevice())
      let stale = try await harness.register("ada@example.com")
      harness.clock.advance(by: .seconds(301))
      let guest = try await harness.issueGuest(try TestDevice())
      let owner = try await harness.signIn("ada@example.com")
      func code(_ id: String, _ scope: String, confirmed: Bool) async throws -> CallOptions {
        let answer = try await harness.grants.issueForQr(
          IdentityV1.IssueForQrRequest(
            qrSessionID: id, sub: owner.subject?.sub ?? "", confirmedBySid: owner.tokens?.sid ?? "",
            clientID: "app.test", scope: scope, confirmerAuthTime: .init(harness.clock.now())),
          options: .service)
        if confirmed {
          _ = try await harness.sessions.confirmSession(
            IdentityV1.ConfirmSessionRequest(sid: answer.tokens?.sid ?? ""), options: .bearer(owner.tokens))
        }
        return .bearer(answer.tokens)
      }
      self.harness = harness
      options = [
        .none: CallOptions(),
        .guest: .bearer(guest.tokens),
        .staleGuest: .bearer(staleGuest.tokens),
        .emptyScope: try await code("qr-1", "nothing-known", confirmed: true),
        .basicScope: try await code("qr-2", "basic", confirmed: true),
        .screen: try await code("qr-3", "basic profile", confirmed: true),
        .unconfirmed: try await code("qr-4", "basic profile account", confirmed: false),
        .stale: .bearer(stale.tokens),
        .fresh: .bearer(owner.tokens),
        .refreshToken: .bearer(CommonV1.TokenSet(accessToken: try owner.tokens.orThrow().refreshToken)),
        .service: .service,
      ]
    }
  }

  /// The words of a credential's scope.
  private static func words(_ credential: Credential) -> [AccessRequirement.ScopeWord] {
    switch credential {
    case .emptyScope, .none, .refreshToken, .service: []
    case .guest, .staleGuest, .basicScope: [.basic]
    case .screen: [.basic, .profile]
    case .unconfirmed, .stale, .fresh: [.basic, .profile, .account]
    }
  }

  /// What the table says; nil lets the call through.
  private static func refusal(_ policy: AccessPolicy, _ credential: Credential) -> String? {
    let isGuest = credential == .guest || credential == .staleGuest
    switch (policy.persons, credential) {
    case (.anyone, _): return nil
    case (.nobody, .service): return nil
    case (.nobody, _): return "SERVICE_ONLY"
    case (_, .service): return policy.services == .none ? "USER_TOKEN_REQUIRED" : nil
    case (_, .none), (_, .refreshToken): return "TOKEN_INVALID"
    case (.account, _) where isGuest: return "LOGIN_REQUIRED"
    case (.account, _), (.subject, _): break
    }
    let asked = policy.requirement
    if let scope = asked.scope, !words(credential).contains(isGuest ? .basic : scope) { return "INSUFFICIENT_SCOPE" }
    if asked.needsRecentProof, credential == .stale || credential == .staleGuest { return "STEP_UP_REQUIRED" }
    if asked.needsConfirmation, credential == .unconfirmed { return "SESSION_UNCONFIRMED" }
    return nil
  }

  @Test("R45, R8, R34: every method with every credential answers what the table says")
  func matrix() async throws {
    let bench = try await Bench()
    let methods = bench.harness.rooms.routes.map(\.method)
    #expect(methods.count > 50)
    for method in methods {
      let policy = try #require(IdentityAccess.policies[method], "\(method.path)")
      for credential in Credential.allCases {
        var reason: String?
        do throws(RPCError) {
          try await bench.harness.channel.begin(method, options: bench.options[credential] ?? CallOptions())
        } catch {
          reason = error.details.reason ?? "\(error.code)"
        }
        #expect(reason == Self.refusal(policy, credential), "\(method.path) with \(credential)")
      }
    }
  }

  @Test("R46: each method that changes who gets in asks for the owner's recent word")
  func changesOfWhoGetsIn() throws {
    let named = [
      "LinkService/LinkIdentity", "LinkService/UnlinkIdentity", "TransferService/CreateTransfer",
      "SessionService/RevokeOtherSessions", "SessionService/ConfirmSession", "DeviceService/RemoveDevice",
      "GuestService/ExportGuest", "GuestService/DeleteGuest",
    ]
    for name in named {
      let method = RPCMethod(path: "/latchkey.identity.v1.\(name)", kind: .unary)
      let policy = try #require(IdentityAccess.policies[method], "\(name)")
      #expect(policy.requirement == IdentityAccess.ownersWord, "\(name)")
    }
    for name in ["AuthService/Logout", "SessionService/RevokeSession"] {
      let method = RPCMethod(path: "/latchkey.identity.v1.\(name)", kind: .unary)
      let policy = try #require(IdentityAccess.policies[method], "\(name)")
      #expect(policy.conditions.map(\.requirement) == [IdentityAccess.ownersWord], "\(name)")
    }
  }
}
