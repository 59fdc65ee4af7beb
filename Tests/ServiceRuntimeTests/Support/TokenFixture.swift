import Cryptography
import GRPC
import LatchkeyModel
import Synchronization
import TestSupport

@testable import ServiceRuntime

/// An identity service's key, tokens signed with it, and a service that trusts them.
struct TokenFixture {
  /// Keys that a test exchanges, and how often missing ones were asked for.
  final class Keys: VerificationKeys {
    private let state: Mutex<(keys: JSONWebKeySet?, asked: Int)>
    private let isFetching: Bool

    init(_ keys: JSONWebKeySet?, isFetching: Bool = false) {
      state = Mutex((keys, 0))
      self.isFetching = isFetching
    }

    var current: JSONWebKeySet? { state.withLock { $0.keys } }
    var asked: Int { state.withLock { $0.asked } }

    func set(_ keys: JSONWebKeySet?) { state.withLock { $0.keys = keys } }

    func fetchMissing(_ keyID: String) -> Bool {
      state.withLock { $0.asked += 1 }
      return isFetching
    }
  }

  static let audience = "latchkey-qr"
  static let issuer = "https://id.example"

  let clock = ManualClock()
  let key: P256PrivateKey
  let signer: AccessTokenSigner
  let keys: Keys
  let authenticator: TokenAuthenticator
  let serviceToken: ServiceToken

  init(isFetching: Bool = false, sessions: (any SessionAuthority)? = nil, cacheCapacity: Int = 64) throws {
    key = try P256PrivateKey()
    signer = AccessTokenSigner(key: key)
    keys = Keys(JSONWebKeySet([key.publicKey]), isFetching: isFetching)
    authenticator = TokenAuthenticator(
      keys: keys,
      issuer: Self.issuer,
      audience: Self.audience,
      clock: clock,
      sessions: sessions,
      cacheCapacity: cacheCapacity
    )
    serviceToken = try Self.makeServiceToken()
  }

  static func makeServiceToken() throws -> ServiceToken {
    guard let token = ServiceToken("lks_" + Base64URL.encode(SecureRandom.bytes(32))) else {
      throw CryptographyError.system(operation: "make a service token")
    }
    return token
  }

  func claims(
    subject: String = "u_1",
    isGuest: Bool = false,
    audience: String = Self.audience,
    tokenID: String = "t1",
    boundTo thumbprint: String? = nil
  ) -> AccessTokenClaims {
    AccessTokenClaims(
      subject: subject,
      audience: [audience],
      issuer: Self.issuer,
      issuedAt: clock.now(),
      expiresAt: clock.now() + .seconds(900),
      tokenID: tokenID,
      clientID: "app",
      scope: "read write",
      sessionID: "s_\(subject)",
      authenticatedAt: isGuest ? nil : clock.now(),
      isGuest: isGuest,
      keyThumbprint: thumbprint
    )
  }

  func token(_ claims: AccessTokenClaims) throws -> String {
    try signer.sign(claims)
  }
}
