import Cryptography
import GRPC
import JSON
import LatchkeyModel
import LatchkeyProtos
import Testing

@testable import IdentityService

@Suite("ID tokens of OpenID providers")
struct IDTokenTests {
  private let provider: TestProvider

  init() throws {
    provider = try TestProvider()
  }

  private func harness(keysAddress: String? = nil) async throws -> IdentityHarness {
    try await IdentityHarness(providers: provider.providers(keysAddress: keysAddress))
  }

  private func signIn(
    _ harness: IdentityHarness, guest: CommonV1.TokenSet? = nil, nonce given: String? = nil, kid: String = "k1",
    signedBy key: P256PrivateKey? = nil, header: [JSONValue.Member] = [], changing changes: [String: JSONValue?] = [:]
  ) async throws -> IdentityV1.AuthenticateResponse {
    let nonce: String
    if let given { nonce = given } else { nonce = try await harness.nonce() }
    let token = try provider.token(
      nonce: nonce, at: harness.clock.now(), header: header, kid: kid, signedBy: key, changing: changes)
    return try await harness.authenticate(
      .idToken(IdentityV1.IdTokenCredential(idToken: token, nonce: nonce)), guest: guest)
  }

  @Test("G20, P7: who is new gets an account with what the provider says of them; the guest becomes it in place")
  func newcomer() async throws {
    let harness = try await harness()
    let guest = try await harness.issueGuest(try TestDevice())
    let first = try await signIn(harness, guest: guest.tokens)
    #expect(first.accountChange?.promoted == true && first.subject?.sub == guest.subject?.sub)
    #expect(
      first.profile == CommonV1.Profile(name: "Ada L.", avatarURL: "https://id.example/ada.png", locale: "pt-BR"))
    let again = try await signIn(harness)
    #expect(again.subject?.sub == first.subject?.sub && again.accountChange?.promoted == false)
    #expect(again.profile == first.profile)
    let identities = try await harness.links.listIdentities(
      IdentityV1.ListIdentitiesRequest(), options: .bearer(again.tokens)
    ).identities
    #expect(identities.map(\.kind) == ["oidc"] && identities.map(\.mask) == ["example"])
    let other = try await signIn(harness, changing: ["sub": "bob", "name": nil, "picture": "http://x/", "locale": nil])
    #expect(other.subject?.sub != first.subject?.sub)
    #expect(other.profile == CommonV1.Profile())
  }

  @Test("G24: two first sign-ins of one person at once make one account")
  func atOnce() async throws {
    let harness = try await harness()
    let subjects = await withTaskGroup(of: String?.self) { group in
      for _ in 0..<6 {
        group.addTask {
          while true {
            do {
              return try await signIn(harness).subject?.sub
            } catch let error as RPCError where error.code == .aborted {
              continue
            } catch {
              return nil
            }
          }
        }
      }
      return await group.reduce(into: Set<String?>()) { $0.insert($1) }
    }
    #expect(subjects.count == 1 && !subjects.contains(nil))
  }

  @Test("A token for several audiences says that it was issued to us")
  func audiences() async throws {
    let harness = try await harness()
    _ = try await signIn(harness, changing: ["aud": "ios-at-example"])
    _ = try await signIn(harness, changing: ["aud": ["app-at-example"], "azp": "app-at-example"])
    _ = try await signIn(harness, changing: ["aud": ["other", "app-at-example"], "azp": "ios-at-example"])
    for changes: [String: JSONValue?] in [
      ["aud": "other"], ["aud": []], ["aud": nil], ["aud": 7], ["aud": ["other", "app-at-example"]],
      ["aud": ["other", "app-at-example"], "azp": "other"], ["azp": "other"], ["azp": 7],
    ] {
      await expectRefusal(.unauthenticated, "INVALID_CREDENTIALS") { try await signIn(harness, changing: changes) }
    }
  }

  @Test("R7: a token holds in its time: not expired, not from the future, not made long ago")
  func time() async throws {
    let harness = try await harness()
    let now = harness.clock.now().secondsSinceEpoch
    _ = try await signIn(harness, changing: ["exp": .integer(now - 59)])
    _ = try await signIn(harness, changing: ["iat": .integer(now + 60), "nbf": .number(Double(now) + 0.5)])
    for changes: [String: JSONValue?] in [
      ["exp": .integer(now - 60)], ["exp": nil], ["exp": "soon"], ["iat": nil], ["iat": .integer(now + 61)],
      ["iat": .integer(now - 601)], ["nbf": .integer(now + 61)], ["nbf": "x"], ["exp": .number(1e300)],
    ] {
      await expectRefusal(.unauthenticated, "INVALID_CREDENTIALS") { try await signIn(harness, changing: changes) }
    }
  }

  @Test("R23: the nonce is one of ours, for this app, in the token, and holds once; hashed it is the same")
  func nonces() async throws {
    let harness = try await harness()
    let nonce = try await harness.nonce()
    let hash = SHA256Hash.hash(Array(nonce.utf8)).map { String($0 >> 4, radix: 16) + String($0 & 15, radix: 16) }
    await expectRefusal(.unauthenticated, "INVALID_CREDENTIALS") {
      try await signIn(harness, nonce: nonce, changing: ["nonce": "another"])
    }
    await expectRefusal(.unauthenticated, "INVALID_CREDENTIALS") {
      try await signIn(harness, nonce: nonce, changing: ["nonce": nil])
    }
    _ = try await signIn(harness, nonce: nonce, changing: ["nonce": .string(hash.joined())])
    await expectRefusal(.failedPrecondition, "CHALLENGE_INVALID") { try await signIn(harness, nonce: nonce) }
    await expectRefusal(.failedPrecondition, "CHALLENGE_INVALID") { try await signIn(harness, nonce: "made-up") }
    // A challenge for a key is no nonce.
    let challenge = try await harness.challenge(for: try TestDevice())
    await expectRefusal(.failedPrecondition, "CHALLENGE_INVALID") { try await signIn(harness, nonce: challenge) }
    let late = try await harness.nonce()
    harness.clock.advance(by: .seconds(301))
    await expectRefusal(.failedPrecondition, "CHALLENGE_INVALID") { try await signIn(harness, nonce: late) }
  }

  @Test("R5, R6: no other algorithm, key or kind of token passes")
  func headers() async throws {
    let harness = try await harness()
    _ = try await signIn(harness, header: [.init("typ", "JWT")])
    for header: [JSONValue.Member] in [
      [.init("alg", "none")], [.init("alg", "HS256")], [.init("alg", "RS256")], [.init("typ", "at+jwt")],
      [.init("typ", "logout+jwt")], [.init("jku", "https://id.example/keys")], [.init("crit", ["exp"])],
      [.init("jwk", try P256PrivateKey().publicKey.jwk(id: "k1"))],
    ] {
      await expectRefusal(.unauthenticated, "INVALID_CREDENTIALS") { try await signIn(harness, header: header) }
    }
    for changes: [String: JSONValue?] in [
      ["iss": "https://id.example/"], ["iss": nil], ["sub": nil], ["sub": ""], ["sub": "with space"],
      ["sub": .string(String(repeating: "a", count: 256))],
    ] {
      await expectRefusal(.unauthenticated, "INVALID_CREDENTIALS") { try await signIn(harness, changing: changes) }
    }
  }

  @Test("R4: each part of a token is under its signature")
  func tampered() async throws {
    let harness = try await harness()
    let nonce = try await harness.nonce()
    let token = Array(try provider.token(nonce: nonce, at: harness.clock.now()).utf8)
    for index in stride(from: 3, to: token.count, by: 41) {
      var changed = token
      changed[index] = changed[index] == UInt8(ascii: "A") ? UInt8(ascii: "B") : UInt8(ascii: "A")
      if changed == token { continue }
      await expectRefusal(.unauthenticated, "INVALID_CREDENTIALS") {
        try await harness.authenticate(
          .idToken(
            IdentityV1.IdTokenCredential(idToken: String(decoding: changed, as: UTF8.self), nonce: nonce)))
      }
    }
  }

  @Test("Keys are found by discovery and kept; a new key is fetched, made-up ones are no load on the provider")
  func keys() async throws {
    let harness = try await harness()
    _ = try await signIn(harness)
    _ = try await signIn(harness)
    let discovery = "https://id.example/.well-known/openid-configuration"
    #expect(provider.state.withLock { $0.fetches } == [discovery, "https://keys.example/jwks"])
    let stranger = try P256PrivateKey()
    for index in 0..<20 {
      await expectRefusal(.unauthenticated, "INVALID_CREDENTIALS") {
        try await signIn(harness, kid: "made-up-\(index)", signedBy: stranger)
      }
    }
    #expect(provider.state.withLock { $0.fetches.count } == 2)
    harness.clock.advance(by: Limits.providerKeysDistance)
    try provider.state.withLock { $0.keys["k2"] = try P256PrivateKey() }
    _ = try await signIn(harness, kid: "k2")
    #expect(provider.state.withLock { $0.fetches.count } == 4)
    // A key that the provider took back holds no longer than the keys are kept.
    provider.state.withLock { $0.keys["k1"] = nil }
    let old = try P256PrivateKey()
    harness.clock.advance(by: Limits.providerKeysFresh)
    await expectRefusal(.unauthenticated, "INVALID_CREDENTIALS") {
      try await signIn(harness, kid: "k1", signedBy: old)
    }
  }

  @Test("G25: a provider that cannot be reached is told apart; its last keys hold for a day")
  func unreachable() async throws {
    let harness = try await harness(keysAddress: "https://keys.example/jwks")
    provider.state.withLock { $0.isDown = true }
    let error = await expectRefusal(.unavailable, "PROVIDER_UNAVAILABLE") { try await signIn(harness) }
    #expect(error?.details.retryAfter == Limits.providerKeysDistance)
    await expectRefusal(.unavailable, "PROVIDER_UNAVAILABLE") { try await signIn(harness) }
    #expect(provider.state.withLock { $0.fetches } == ["https://keys.example/jwks"])
    provider.state.withLock { $0.isDown = false }
    harness.clock.advance(by: Limits.providerKeysDistance)
    _ = try await signIn(harness)
    provider.state.withLock { $0.isDown = true }
    harness.clock.advance(by: Limits.providerKeysFresh * 2)
    _ = try await signIn(harness)
    harness.clock.advance(by: Limits.providerKeysStale)
    await expectRefusal(.unavailable, "PROVIDER_UNAVAILABLE") { try await signIn(harness) }
  }

  @Test("R6: a discovery document of another issuer leads to no keys")
  func discovery() async throws {
    let harness = try await harness()
    provider.state.withLock { $0.claimedIssuer = "https://evil.example" }
    await expectRefusal(.unavailable, "PROVIDER_UNAVAILABLE") { try await signIn(harness) }
    #expect(provider.state.withLock { $0.fetches.count } == 1)
  }

  @Test("An ID token is linked to an account once; another account's is refused")
  func linked() async throws {
    let harness = try await harness()
    let ada = try await harness.register("ada@example.com")
    let bob = try await harness.register("bob@example.com").tokens
    func link(_ tokens: CommonV1.TokenSet?) async throws -> IdentityV1.LinkIdentityResponse {
      let nonce = try await harness.nonce()
      let token = try provider.token(nonce: nonce, at: harness.clock.now())
      return try await harness.link(
        .idToken(IdentityV1.IdTokenCredential(idToken: token, nonce: nonce)), tokens,
        password: IdentityHarness.password)
    }
    #expect(try await link(ada.tokens).linked)
    #expect(try await !link(ada.tokens).linked)
    await expectRefusal(.alreadyExists, "IDENTITY_IN_USE") { try await link(bob) }
    #expect(try await signIn(harness).subject?.sub == ada.subject?.sub)
  }

  @Test("G22: what is missing is named, and a nonce is asked for without a key")
  func fields() async throws {
    let harness = try await harness()
    await expectRefusal(.invalidArgument, field: "id_token.id_token") {
      try await harness.authenticate(.idToken(IdentityV1.IdTokenCredential(idToken: "", nonce: "n")))
    }
    await expectRefusal(.invalidArgument, field: "id_token.nonce") {
      try await harness.authenticate(.idToken(IdentityV1.IdTokenCredential(idToken: "t", nonce: "")))
    }
    await expectRefusal(.invalidArgument, field: "device_key") {
      try await harness.guests.getChallenge(
        IdentityV1.GetChallengeRequest(
          clientID: "app.test", deviceKey: try TestDevice().jwk, purpose: .idTokenNonce))
    }
  }
}
