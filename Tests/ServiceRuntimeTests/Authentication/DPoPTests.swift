import Cryptography
import GRPC
import JSON
import LatchkeyModel
import Testing

@testable import ServiceRuntime

@Suite("Proofs of possession")
struct DPoPTests {
  enum Method: String, CaseIterable {
    case subject = "/test.Test/Subject"
    case open = "/test.Test/Open"
  }

  let fixture: TokenFixture
  let interceptor: AuthenticationInterceptor
  let key: P256PrivateKey
  let token: String

  init() throws {
    fixture = try TokenFixture()
    interceptor = AuthenticationInterceptor(
      policies: AccessPolicies(Method.self) { $0 == .open ? .open : .subject(nil) },
      tokens: fixture.authenticator,
      serviceToken: fixture.serviceToken,
      stepUp: StepUpPolicy()
    )
    key = try P256PrivateKey()
    token = try fixture.token(fixture.claims(boundTo: key.publicKey.thumbprint))
  }

  private func payload(_ identifier: String) -> [(String, JSONValue)] {
    [
      ("jti", .string(identifier)), ("htm", "POST"), ("htu", "https://qr.example/test.Test/Subject"),
      ("iat", .integer(fixture.clock.now().secondsSinceEpoch)),
      ("ath", .string(Base64URL.encode(SHA256Hash.hash(Array(token.utf8))))),
    ]
  }

  private func proof(
    _ identifier: String = "p1",
    type: JSONValue = "dpop+jwt",
    signer: P256PrivateKey? = nil,
    shown: P256PrivateKey? = nil,
    changing name: String? = nil,
    to value: JSONValue? = nil
  ) throws -> String {
    let signer = signer ?? key
    let header: JSONValue = ["typ": type, "alg": "ES256", "jwk": (shown ?? signer).publicKey.jwk(id: "k")]
    let members = payload(identifier).compactMap { entry -> JSONValue.Member? in
      guard entry.0 == name else { return JSONValue.Member(entry.0, entry.1) }
      return value.map { JSONValue.Member(entry.0, $0) }
    }
    return try CompactJWS.sign(header: header, payload: .object(members), with: signer)
  }

  /// The reason of the refusal; nil when the call is let through as the token's subject.
  private func refusal(
    _ metadata: Metadata,
    method: Method = .subject
  ) -> String? {
    let context = ServerContext(method: RPCMethod(path: method.rawValue, kind: .unary), metadata: metadata)
    do throws(RPCError) {
      try interceptor.willHandle(context)
      guard case .subject = context.caller else { return "anonymous" }
      return nil
    } catch {
      return error.details.reason
    }
  }

  private func bound(_ proof: String, token: String? = nil) -> Metadata {
    ["authorization": "DPoP \(token ?? self.token)", "dpop": proof]
  }

  @Test("R22: a token that is bound to a key is nothing without a proof of it")
  func plainBearer() throws {
    #expect(refusal(["authorization": "Bearer \(token)"]) == "invalid_dpop_proof")
    #expect(refusal(["authorization": "Bearer \(token)", "dpop": try proof()]) == "invalid_dpop_proof")
    #expect(refusal(["authorization": "DPoP \(token)"]) == "invalid_dpop_proof")
    #expect(refusal(["authorization": "Bearer \(token)"], method: .open) == "anonymous")
    #expect(refusal(bound(try proof())) == nil)
  }

  @Test("R22: a proof is good once")
  func replay() throws {
    let proof = try proof()
    #expect(refusal(bound(proof)) == nil)
    #expect(refusal(bound(proof)) == "invalid_dpop_proof")
    // The same identifier in a proof that is signed again.
    #expect(refusal(bound(try self.proof())) == "invalid_dpop_proof")
    #expect(refusal(bound(try self.proof("p2"))) == nil)
    // Remembered until its time is over.
    fixture.clock.advance(by: .seconds(60))
    #expect(refusal(bound(proof)) == "invalid_dpop_proof")
  }

  @Test("R22: a proof by another key, for another call, token or time does not hold")
  func wrongProofs() throws {
    let thief = try P256PrivateKey()
    let now = fixture.clock.now().secondsSinceEpoch
    let proofs: [String] = try [
      proof(signer: thief), proof(signer: thief, shown: key), proof(type: "at+jwt"), proof(type: "jwt"),
      proof(changing: "htm", to: "GET"), proof(changing: "htu", to: "https://qr.example/test.Test/Other"),
      proof(changing: "htu", to: "/test.Test/Subject"), proof(changing: "htu", to: "ftp://x/test.Test/Subject"),
      proof(changing: "ath", to: .string(Base64URL.encode(SHA256Hash.hash([1])))),
      proof(changing: "iat", to: .integer(now - 61)), proof(changing: "iat", to: .integer(now + 61)),
      proof(changing: "iat", to: .integer(.max)), proof(changing: "iat", to: .integer(.min)),
      proof(changing: "jti", to: ""), proof(changing: "jti", to: .string(String(repeating: "x", count: 129))),
      proof(changing: "jti"), proof(changing: "htm"), proof(changing: "htu"), proof(changing: "iat"),
      proof(changing: "ath"), "", "a.b.c",
    ]
    for proof in proofs { #expect(refusal(bound(proof)) == "invalid_dpop_proof", "\(proof)") }
    var two = bound(try proof("p3"))
    two.append(contentsOf: ["dpop": try proof("p4")])
    #expect(refusal(two) == "invalid_dpop_proof")
    // A query and a fragment do not count.
    #expect(refusal(bound(try proof(changing: "htu", to: "http://x:1/test.Test/Subject?a=/b#c"))) == nil)
  }

  @Test("R22: a proof of another time is refused with how far the clocks are apart")
  func otherClock() throws {
    let now = fixture.clock.now().secondsSinceEpoch
    for (issued, skew) in [(now + 75, "75 seconds after"), (now - 90, "90 seconds before")] {
      let context = ServerContext(
        method: RPCMethod(path: Method.subject.rawValue, kind: .unary),
        metadata: bound(try proof(changing: "iat", to: .integer(issued))))
      let error = #expect(throws: RPCError.self) { try interceptor.willHandle(context) }
      #expect(error?.message.contains(skew) == true)
      #expect(error?.details.reason == "invalid_dpop_proof")
      #expect(error?.details.info.contains { $0.key == "server_time" && $0.value == "\(now)" } == true)
    }
    // Of a proof that is wrong besides, no more is said than that.
    let context = ServerContext(
      method: RPCMethod(path: Method.subject.rawValue, kind: .unary),
      metadata: bound(try proof(signer: P256PrivateKey(), changing: "iat", to: .integer(now + 75))))
    let error = #expect(throws: RPCError.self) { try interceptor.willHandle(context) }
    #expect(error?.message == DPoPVerifier.invalid.message)
  }

  @Test("a token that is bound to no key cannot be shown as if it were")
  func unbound() throws {
    let free = try fixture.token(fixture.claims())
    #expect(refusal(["authorization": "Bearer \(free)"]) == nil)
    #expect(refusal(bound(try proof(), token: free)) == "invalid_dpop_proof")
  }

  /// How a proof made now fares; nil when it is accepted.
  private func checked(_ identifier: String, by verifier: DPoPVerifier, of key: P256PrivateKey? = nil) -> StatusCode? {
    do {
      try verifier.check(
        try proof(identifier, signer: key),
        of: token,
        boundTo: (key ?? self.key).publicKey.thumbprint,
        method: RPCMethod(path: Method.subject.rawValue, kind: .unary),
        at: fixture.clock.now())
      return nil
    } catch {
      return (error as? RPCError)?.code
    }
  }

  @Test("R50: a key that shows more proofs than can be remembered leaves every other key its calls")
  func floodOfOneKey() throws {
    let verifier = DPoPVerifier(capacity: 8)
    let neighbour = try P256PrivateKey()
    for index in 0..<32 { _ = checked("flood \(index)", by: verifier) }
    #expect(checked("a", by: verifier, of: neighbour) == nil)
    #expect(checked("a", by: verifier, of: neighbour) == .unauthenticated)
    for index in 32..<64 { _ = checked("flood \(index)", by: verifier) }
    // What the neighbour showed is known still, and none of the other key's proofs is good twice.
    #expect(checked("a", by: verifier, of: neighbour) == .unauthenticated)
    for index in 0..<64 { #expect(checked("flood \(index)", by: verifier) != nil) }
    #expect(verifier.count <= 8)
  }

  @Test("R50: where as many keys as there is room for have shown a proof, a further one is told to come later")
  func floodOfKeys() throws {
    let verifier = DPoPVerifier(capacity: 16)
    let keys = try (0..<16).map { _ in try P256PrivateKey() }
    let first = keys.map { checked("a", by: verifier, of: $0) }
    #expect(first.allSatisfy { $0 == nil })
    let refusal = #expect(throws: RPCError.self) {
      try verifier.check(
        try proof("a"), of: token, boundTo: key.publicKey.thumbprint,
        method: RPCMethod(path: Method.subject.rawValue, kind: .unary), at: fixture.clock.now())
    }
    #expect(refusal?.code == .resourceExhausted && refusal?.details.retryAfter == .seconds(1))
    fixture.clock.advance(by: .seconds(1))
    let known = [checked("b", by: verifier, of: keys[0]), checked("a", by: verifier, of: keys[1])]
    #expect(known == [nil, .unauthenticated])
    // What all of them showed is out of time.
    for name in ["c", "d"] {
      fixture.clock.advance(by: .seconds(121))
      #expect(checked(name, by: verifier, of: keys[0]) == nil)
    }
    let late = [checked("a", by: verifier), checked("a", by: verifier)]
    #expect(late == [nil, .unauthenticated])
  }
}
