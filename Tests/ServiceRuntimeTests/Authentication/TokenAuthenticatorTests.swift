import Cryptography
import GRPC
import LatchkeyModel
import Synchronization
import Testing

@testable import ServiceRuntime

@Suite("Token authentication")
struct TokenAuthenticatorTests {
  /// Sessions that a test ends.
  final class Sessions: SessionAuthority {
    private let ended = Mutex<Set<String>>([])

    func end(_ session: String) { ended.withLock { _ = $0.insert(session) } }

    func hasEnded(_ subject: AuthenticatedSubject) -> Bool { ended.withLock { $0.contains(subject.sessionID) } }
  }

  private func error(_ fixture: TokenFixture, _ token: String) -> RPCError? {
    do throws(RPCError) {
      _ = try fixture.authenticator.authenticate(token)
      return nil
    } catch {
      return error
    }
  }

  @Test("R7: a token that was verified before still expires")
  func cachedTokenExpires() throws {
    let fixture = try TokenFixture()
    let token = try fixture.token(fixture.claims())
    #expect(error(fixture, token) == nil)
    fixture.clock.advance(by: .seconds(900 + 60 - 1))
    #expect(error(fixture, token) == nil)
    fixture.clock.advance(by: .seconds(1))
    #expect(error(fixture, token)?.details.reason == "TOKEN_EXPIRED")
  }

  @Test("a key that is withdrawn takes its verified tokens with it")
  func withdrawnKey() throws {
    let fixture = try TokenFixture()
    let token = try fixture.token(fixture.claims())
    #expect(error(fixture, token) == nil)
    fixture.keys.set(JSONWebKeySet([try P256PrivateKey().publicKey]))
    #expect(error(fixture, token)?.details.reason == "TOKEN_INVALID")
  }

  @Test("R14: a session that ended gives no access, also with a token that was verified before")
  func endedSession() throws {
    let sessions = Sessions()
    let fixture = try TokenFixture(sessions: sessions)
    let token = try fixture.token(fixture.claims())
    #expect(error(fixture, token) == nil)
    sessions.end("s_u_1")
    #expect(error(fixture, token)?.code == .unauthenticated)
    #expect(error(fixture, token)?.details.reason == "SESSION_REVOKED")
    let other = try fixture.token(fixture.claims(subject: "u_2"))
    #expect(error(fixture, other) == nil)
  }

  @Test("R41: while no keys are known nothing is let through, and the client may try again")
  func noKeys() throws {
    let fixture = try TokenFixture()
    let token = try fixture.token(fixture.claims())
    #expect(error(fixture, token) == nil)
    fixture.keys.set(nil)
    let refusal = try #require(error(fixture, token))
    #expect(refusal.code == .unavailable)
    #expect(refusal.details.retryAfter != nil)
  }

  @Test("R6: an unknown key is UNAVAILABLE while a fetch may bring it, and no token otherwise")
  func unknownKey() throws {
    for isFetching in [true, false] {
      let fixture = try TokenFixture(isFetching: isFetching)
      let token = try AccessTokenSigner(key: P256PrivateKey()).sign(fixture.claims())
      let refusal = try #require(error(fixture, token))
      #expect(refusal.code == (isFetching ? .unavailable : .unauthenticated))
      #expect(fixture.keys.asked == 1)
    }
  }

  @Test("a flood of distinct tokens does not grow the cache beyond its bound")
  func cacheBound() throws {
    let cache = VerifiedTokenCache(capacity: 64)
    let fixture = try TokenFixture()
    let entry = VerifiedTokenCache.Entry(claims: fixture.claims(), keyID: "k")
    let frequent = SHA256Hash.hash([0xFF])
    cache.insert(entry, hash: frequent)
    for number in 0..<10_000 {
      cache.insert(entry, hash: SHA256Hash.hash(Array("\(number)".utf8)))
      #expect(cache.count <= 64)
      // What is used stays.
      #expect(cache[frequent] != nil)
    }
    #expect(cache[SHA256Hash.hash(Array("0".utf8))] == nil)
    #expect(cache[SHA256Hash.hash(Array("9999".utf8))] != nil)
  }

  @Test("a repeated token costs no second verification")
  func repeatedToken() throws {
    let fixture = try TokenFixture()
    let token = try fixture.token(fixture.claims())
    #expect(error(fixture, token) == nil)
    // Under the same name another key, which verifies neither token: only the remembered one gets through.
    let other = try P256PrivateKey().publicKey
    fixture.keys.set(JSONWebKeySet(keys: [JSONWebKeySet.Key(id: fixture.signer.keyID, publicKey: other)]))
    #expect(error(fixture, token) == nil)
    let fresh = try fixture.token(fixture.claims(tokenID: "t2"))
    #expect(error(fixture, fresh)?.details.reason == "TOKEN_INVALID")
  }
}
