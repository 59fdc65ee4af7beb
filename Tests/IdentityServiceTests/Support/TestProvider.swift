import Cryptography
import JSON
import LatchkeyModel
import Synchronization
import Transfers

@testable import IdentityService

/// An OpenID provider whose tokens a test writes as it likes.
final class TestProvider: Sendable {
  static let issuer = "https://id.example"

  struct State: Sendable {
    var keys: [String: P256PrivateKey] = [:]
    var isDown = false
    var fetches: [String] = []
    /// What the discovery document says of its issuer.
    var claimedIssuer = issuer
  }

  let state: Mutex<State>

  init() throws {
    state = Mutex(State(keys: ["k1": try P256PrivateKey()]))
  }

  func providers(keysAddress: String? = nil) -> OpenIDProviders {
    let provider = OpenIDProvider(
      name: "example", issuer: Self.issuer, clientIDs: ["app-at-example", "ios-at-example"], keysAddress: keysAddress)
    return OpenIDProviders([provider], logger: IdentityHarness.logger) { [self] request throws(TransferError) in
      let answer: Result<HTTPResponse, TransferError> = state.withLock { state in
        state.fetches.append(request.address)
        if state.isDown { return .failure(TransferError("down", isRetryable: true)) }
        let body: JSONValue =
          request.address.hasSuffix("/.well-known/openid-configuration")
          ? ["issuer": .string(state.claimedIssuer), "jwks_uri": "https://keys.example/jwks"]
          : ["keys": .array(state.keys.sorted { $0.key < $1.key }.map { $0.value.publicKey.jwk(id: $0.key) })]
        return .success(HTTPResponse(status: 200, body: body.encoded()))
      }
      return try answer.get()
    }
  }

  /// A token that holds, unless something of it is changed; nil takes a claim away.
  func token(
    nonce: String, subject: String = "ada", at now: Timestamp, header: [JSONValue.Member] = [],
    kid: String = "k1", signedBy key: P256PrivateKey? = nil, changing changes: [String: JSONValue?] = [:]
  ) throws -> String {
    var claims: [(String, JSONValue)] = [
      ("iss", .string(Self.issuer)), ("sub", .string(subject)), ("aud", "app-at-example"),
      ("exp", .integer(now.secondsSinceEpoch + 300)), ("iat", .integer(now.secondsSinceEpoch)),
      ("nonce", .string(nonce)), ("name", "Ada L."), ("picture", "https://id.example/ada.png"), ("locale", "pt-BR"),
    ]
    for (name, value) in changes {
      claims.removeAll { $0.0 == name }
      if let value { claims.append((name, value)) }
    }
    let key = try key ?? state.withLock { $0.keys[kid] }.orThrow()
    var members: [JSONValue.Member] = [.init("alg", "ES256"), .init("kid", .string(kid))]
    members.removeAll { member in header.contains { $0.name == member.name } }
    return try CompactJWS.sign(
      header: .object(members + header.filter { $0.value != .null }),
      payload: .object(claims.map { JSONValue.Member($0.0, $0.1) }), with: key)
  }
}
