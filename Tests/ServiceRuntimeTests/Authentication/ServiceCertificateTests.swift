import GRPC
import Testing

@testable import ServiceRuntime

@Suite("Services that prove themselves by certificate")
struct ServiceCertificateTests {
  enum Method: String, CaseIterable {
    case open = "/test.Test/Open"
    case subject = "/test.Test/Subject"
    case anyService = "/test.Test/AnyService"
    case onlyQR = "/test.Test/OnlyQR"
    case subjectOrService = "/test.Test/SubjectOrService"

    var policy: AccessPolicy {
      switch self {
      case .open: .open
      case .subject: .subject(nil)
      case .anyService: .service
      case .onlyQR: .services([.qr])
      case .subjectOrService: .subject(nil).orService
      }
    }
  }

  let fixture: TokenFixture
  let interceptor: AuthenticationInterceptor

  init() throws {
    fixture = try TokenFixture()
    let names = try #require(CertificateNames(["qr=qr.internal", "migrator=spiffe://x/migrator"]))
    interceptor = AuthenticationInterceptor(
      policies: AccessPolicies(Method.self) { $0.policy },
      tokens: fixture.authenticator,
      serviceToken: nil,
      certificateNames: names,
      stepUp: StepUpPolicy()
    )
  }

  /// The caller, or the refusal.
  private func call(_ method: Method, _ names: [String], _ metadata: Metadata = [:]) -> (Caller?, StatusCode?) {
    let context = ServerContext(
      method: RPCMethod(path: method.rawValue, kind: .unary),
      metadata: metadata,
      peer: Peer(address: "127.0.0.1", port: 1, tlsNames: names)
    )
    do throws(RPCError) {
      try interceptor.willHandle(context)
      return (context.caller, nil)
    } catch {
      return (nil, error.code)
    }
  }

  @Test("R41: the certificate's name opens the methods of its service and no others")
  func names() {
    for names in [["qr.internal"], ["localhost", "qr.internal"]] {
      #expect(call(.anyService, names) == (.service, nil))
      #expect(call(.onlyQR, names) == (.service, nil))
      #expect(call(.subjectOrService, names) == (.service, nil))
      #expect(call(.subject, names) == (nil, .unauthenticated))
      #expect(call(.open, names) == (.anonymous, nil))
    }
    #expect(call(.anyService, ["spiffe://x/migrator"]) == (.service, nil))
    #expect(call(.onlyQR, ["spiffe://x/migrator"]) == (nil, .permissionDenied))
  }

  @Test(
    "R41: a name that is not listed, nearly listed or one of two services is nobody's",
    arguments: [
      [], ["other.internal"], ["QR.internal"], ["qr.internal."], ["xqr.internal"], ["spiffe://x/migrator/"],
      ["qr.internal", "spiffe://x/migrator"],
    ]
  )
  func strangers(_ names: [String]) {
    for method in [Method.anyService, .onlyQR, .subjectOrService, .subject] {
      #expect(call(method, names) == (nil, .unauthenticated))
    }
  }

  @Test("a call that a service makes with a person's token is that person's")
  func onBehalf() throws {
    let metadata: Metadata = try ["authorization": "Bearer \(fixture.token(fixture.claims()))"]
    let (caller, _) = call(.subjectOrService, ["qr.internal"], metadata)
    guard case .subject(let subject) = caller else {
      Issue.record("\(String(describing: caller))")
      return
    }
    #expect(subject.subject == "u_1")
    #expect(call(.onlyQR, ["qr.internal"], metadata) == (nil, .permissionDenied))
  }

  @Test("the shared secret is no proof where certificates are")
  func token() {
    #expect(call(.anyService, ["qr.internal"], fixture.serviceToken.metadata) == (nil, .unauthenticated))
    #expect(call(.anyService, [], fixture.serviceToken.metadata) == (nil, .unauthenticated))
  }

  @Test("names that do not say one service each are refused at the start")
  func configuration() {
    #expect(CertificateNames(CertificateNames.standard) != nil)
    for entries in [["qr"], ["qr="], ["web=x"], ["=x"], ["qr=x", "migrator=x"]] {
      #expect(CertificateNames(entries) == nil)
    }
  }
}
