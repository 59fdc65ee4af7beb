import Cryptography
import GRPC
import LatchkeyModel
import Testing

@testable import ServiceRuntime

@Suite("Access policies")
struct PolicyMatrixTests {
  /// One method for each policy.
  enum Method: String, CaseIterable {
    case open = "/test.Test/Open"
    case subject = "/test.Test/Subject"
    case account = "/test.Test/Account"
    case service = "/test.Test/Service"
    case subjectOrService = "/test.Test/SubjectOrService"
    case accountOrService = "/test.Test/AccountOrService"

    var policy: AccessPolicy {
      switch self {
      case .open: .open
      case .subject: .subject(nil)
      case .account: .account(nil)
      case .service: .service
      case .subjectOrService: .subject(nil).orService
      case .accountOrService: .account(nil).orService
      }
    }
  }

  /// What a caller may bring.
  enum Bring: CaseIterable {
    case nothing, guest, account, expired, forged, otherAudience, refreshToken, service, wrongService, basic, twice
  }

  /// What must come of it: who the handler sees, or the status.
  enum Outcome: Equatable {
    case anonymous
    case guest
    case account
    case service
    case refused(StatusCode, String?)
  }

  let fixture: TokenFixture
  let interceptor: AuthenticationInterceptor

  init() throws {
    fixture = try TokenFixture()
    interceptor = AuthenticationInterceptor(
      policies: AccessPolicies(Method.self) { $0.policy },
      tokens: fixture.authenticator,
      serviceToken: fixture.serviceToken,
      stepUp: StepUpPolicy()
    )
  }

  private func metadata(_ bring: Bring) throws -> Metadata {
    func bearer(_ token: String) -> Metadata { ["authorization": "Bearer \(token)"] }
    switch bring {
    case .nothing: return [:]
    case .guest: return try bearer(fixture.token(fixture.claims(subject: "g_1", isGuest: true)))
    case .account: return try bearer(fixture.token(fixture.claims()))
    case .expired:
      var claims = fixture.claims()
      claims.expiresAt = claims.issuedAt - .seconds(3600)
      return try bearer(fixture.token(claims))
    case .forged:
      return try bearer(AccessTokenSigner(key: P256PrivateKey()).sign(fixture.claims()))
    case .otherAudience: return try bearer(fixture.token(fixture.claims(audience: "latchkey-identity")))
    // Opaque, as refresh tokens, tickets and codes are.
    case .refreshToken: return bearer(Base64URL.encode(SecureRandom.bytes(32)))
    case .service: return fixture.serviceToken.metadata
    case .wrongService: return try TokenFixture.makeServiceToken().metadata
    case .basic: return ["authorization": "Basic dTpw"]
    case .twice:
      let token = try fixture.token(fixture.claims())
      return ["authorization": "Bearer \(token)", "authorization": "Bearer \(token)"]
    }
  }

  private static let missing = Outcome.refused(.unauthenticated, "TOKEN_INVALID")
  private static let invalid = Outcome.refused(.unauthenticated, "TOKEN_INVALID")
  private static let expired = Outcome.refused(.unauthenticated, "TOKEN_EXPIRED")
  private static let login = Outcome.refused(.permissionDenied, "LOGIN_REQUIRED")
  private static let serviceOnly = Outcome.refused(.permissionDenied, "SERVICE_ONLY")

  private static func expected(_ method: Method, _ bring: Bring) -> Outcome {
    switch (method, bring) {
    case (.open, .guest): .guest
    case (.open, .account): .account
    case (.open, _): .anonymous

    case (.service, .service): .service
    case (.service, .nothing): .refused(.unauthenticated, "SERVICE_ONLY")
    case (.service, .wrongService): invalid
    case (.service, _): serviceOnly

    case (.subject, .guest), (.subjectOrService, .guest): .guest
    case (.account, .guest), (.accountOrService, .guest): login
    case (_, .account): .account
    case (.subjectOrService, .service), (.accountOrService, .service): .service
    case (_, .service): .refused(.permissionDenied, "USER_TOKEN_REQUIRED")
    case (_, .expired): expired
    case (_, .nothing): missing
    case (_, .forged), (_, .otherAudience), (_, .refreshToken), (_, .wrongService), (_, .basic), (_, .twice): invalid
    }
  }

  private func outcome(_ context: ServerContext) -> Outcome {
    do throws(RPCError) {
      try interceptor.willHandle(context)
      switch context.caller {
      case .anonymous: return .anonymous
      case .subject(let subject): return subject.isGuest ? .guest : .account
      case .service: return .service
      }
    } catch {
      return .refused(error.code, error.details.reason)
    }
  }

  @Test("R8: every kind of credential at every kind of method", arguments: Method.allCases, Bring.allCases)
  func matrix(_ method: Method, _ bring: Bring) throws {
    let context = ServerContext(
      method: RPCMethod(path: method.rawValue, kind: .unary),
      metadata: try metadata(bring)
    )
    // Twice: the second answer comes from the cache of verified tokens.
    #expect(outcome(context) == Self.expected(method, bring))
    let again = ServerContext(method: context.method, metadata: context.metadata)
    #expect(outcome(again) == Self.expected(method, bring))
  }

  @Test("a method without a policy is closed")
  func noPolicy() throws {
    let context = ServerContext(
      method: RPCMethod(path: "/test.Test/Forgotten", kind: .unary),
      metadata: try metadata(.account)
    )
    #expect(outcome(context) == .refused(.permissionDenied, nil))
  }

  @Test("the caller in the context says what the token said")
  func caller() throws {
    let context = ServerContext(
      method: RPCMethod(path: Method.account.rawValue, kind: .unary),
      metadata: try metadata(.account)
    )
    try interceptor.willHandle(context)
    let subject = try context.requireSubject()
    #expect(subject.subject == "u_1")
    #expect(subject.sessionID == "s_u_1")
    #expect(subject.clientID == "app")
    #expect(subject.authenticatedAt == fixture.clock.now())
    #expect(subject.hasScope("read") && subject.hasScope("write") && !subject.hasScope("rea"))
  }

  @Test("the scheme's case does not matter, its form does")
  func schemes() throws {
    let token = try fixture.token(fixture.claims())
    for (value, isAccepted) in [
      ("bearer \(token)", true), ("BEARER \(token)", true), ("Bearer  \(token)", false), ("Bearer", false),
      (token, false), ("Bearer \(token) x", false), ("", false),
    ] {
      let context = ServerContext(
        method: RPCMethod(path: Method.account.rawValue, kind: .unary),
        metadata: ["authorization": value]
      )
      #expect((outcome(context) == .account) == isAccepted, "\(value)")
    }
  }
}
