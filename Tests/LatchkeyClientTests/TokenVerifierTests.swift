import Cryptography
import GRPC
import LatchkeyModel
import LatchkeyProtos
import Synchronization
import Testing

@testable import LatchkeyClient

@Suite("Verifying tokens in a service of one's own") struct TokenVerifierTests {
  private let harness: Harness
  private let fetches = Fetches()

  private final class Fetches: Sendable {
    let state = Mutex((count: 0, isDown: false))
  }

  init() async throws {
    harness = try await Harness()
  }

  private func verifier(audience: String = "latchkey-identity", issuer: String = "http://identity.test")
    -> TokenVerifier
  {
    let auth = IdentityV1.AuthServiceClient(channel: harness.channel)
    return TokenVerifier(issuer: issuer, audience: audience, clock: harness.serviceClock) {
      [fetches] () throws(RPCError) in
      let isDown = fetches.state.withLock { state in
        state.count += 1
        return state.isDown
      }
      if isDown { throw RPCError(.unavailable, "down") }
      let answer = try await auth.getJwks(IdentityV1.GetJwksRequest())
      guard let keys = try? JSONWebKeySet(parsing: Array(answer.jwksJSON.utf8)) else { throw RPCError(.dataLoss, "") }
      return keys
    }
  }

  private func token() async throws -> String {
    _ = try await harness.startGuest()
    return try await harness.device().accessToken()
  }

  @Test("R11: a token says who calls; the keys are fetched once")
  func holds() async throws {
    let token = try await token()
    let verifier = verifier()
    for _ in 0..<3 {
      let caller = try await verifier.verify(token)
      #expect(caller.isGuest && caller.scope == "basic" && caller.clientID == "test-app" && caller.allows("basic"))
      #expect(!caller.allows("account"))
    }
    #expect(fetches.state.withLock { $0.count } == 1)
  }

  @Test("R7, R9: another time, audience or issuer is refused")
  func refused() async throws {
    let token = try await token()
    await #expect(throws: TokenRefusal.invalid) { try await verifier(audience: "shop").verify(token) }
    await #expect(throws: TokenRefusal.invalid) { try await verifier(issuer: "http://other").verify(token) }
    await #expect(throws: TokenRefusal.invalid) { try await verifier().verify("nonsense") }
    harness.expireAccessToken()
    await #expect(throws: TokenRefusal.expired) { try await verifier().verify(token) }
  }

  @Test("R22: a bound token is refused unless its key was proven")
  func bound() async throws {
    let device = harness.device(bindsTokens: true)
    _ = try await device.startAsGuest(DeviceDescription(label: "test"))
    let token = try await device.accessToken()
    let verifier = verifier()
    await #expect(throws: TokenRefusal.proofRequired) { try await verifier.verify(token) }
    await #expect(throws: TokenRefusal.proofRequired) { try await verifier.verify(token, provenKey: "another") }
    let key = try #require(try await device.bindingKey())
    let thumbprint = try P256PublicKey(jwkX: key.x, y: key.y).thumbprint
    #expect(try await verifier.verify(token, provenKey: thumbprint).isGuest)
  }

  @Test("R6: a new key of the issuer is fetched, made-up ones are no load, and without keys nothing verifies")
  func keys() async throws {
    let token = try await token()
    fetches.state.withLock { $0.isDown = true }
    let verifier = verifier()
    await #expect(throws: TokenRefusal.keysUnavailable) { try await verifier.verify(token) }
    fetches.state.withLock { $0.isDown = false }
    harness.advance(by: Limits.keysDistance)
    _ = try await verifier.verify(token)
    let stranger = AccessTokenSigner(key: try P256PrivateKey())
    let now = harness.serviceClock.now()
    let forged = try stranger.sign(
      AccessTokenClaims(
        subject: "x", audience: ["latchkey-identity"], issuer: "http://identity.test", issuedAt: now,
        expiresAt: now + .seconds(60), tokenID: "x", clientID: "x", scope: "", sessionID: "x", isGuest: false))
    for _ in 0..<10 { await #expect(throws: TokenRefusal.invalid) { try await verifier.verify(forged) } }
    #expect(fetches.state.withLock { $0.count } == 2)
    // Old keys are fetched again; while that fails the last ones do.
    fetches.state.withLock { $0.isDown = true }
    harness.advance(by: Limits.keysFresh)
    _ = try await verifier.verify(token)
    #expect(fetches.state.withLock { $0.count } == 3)
  }
}
