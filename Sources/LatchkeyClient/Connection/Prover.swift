import Cryptography
import GRPC
import JSON
import LatchkeyModel
import LatchkeyProtos
import Synchronization

/// Makes the proofs of possession that bind tokens to this device's key (RFC 9449): tokens that leak are then of no use
/// to whoever finds them.
final class Prover: Sendable {
  private struct State {
    var key: P256PrivateKey?
    /// The newest nonce that each service asked for: of each process its own.
    var nonces: [ProvingChannel.Peer: String] = [:]
    /// The service's clock minus this device's.
    var clockSkew: Duration?
  }

  /// The calls that begin a session, or go on with one: their proofs bind its tokens.
  private static let beginnings: Set<String> = [
    IdentityV1.GuestServiceMethod.issueGuest.rpc.path,
    IdentityV1.AuthServiceMethod.register.rpc.path,
    IdentityV1.AuthServiceMethod.authenticate.rpc.path,
    IdentityV1.AuthServiceMethod.refresh.rpc.path,
    IdentityV1.TransferServiceMethod.redeemTransfer.rpc.path,
  ]

  private let clock: any WallClock
  private let state = Mutex(State())

  init(clock: any WallClock) {
    self.clock = clock
  }

  var hasKey: Bool { state.withLock { $0.key != nil } }

  func use(_ key: P256PrivateKey) {
    state.withLock { $0.key = key }
  }

  /// What the services' clock said just now: proofs are made by it, so that a device whose clock is wrong is believed.
  func note(clockSkew: Duration) {
    state.withLock { $0.clockSkew = clockSkew }
  }

  /// What it said some time ago: better than nothing.
  func assume(clockSkew: Duration) {
    state.withLock { $0.clockSkew = $0.clockSkew ?? clockSkew }
  }

  /// Keeps what a refusal of a proof brought along: the nonce to put in, and the time to make it by.
  func note(_ error: RPCError, from peer: ProvingChannel.Peer) {
    let nonce = error.metadata["dpop-nonce"]
    let time = error.details.info.first { $0.key == "server_time" }.flatMap { Int64($0.value) }
    guard nonce != nil || time != nil else { return }
    let now = clock.now()
    state.withLock { state in
      if let nonce { state.nonces[peer] = nonce }
      if let time, (0...253_402_300_799).contains(time) {
        state.clockSkew = Timestamp(secondsSinceEpoch: time) - now
      }
    }
  }

  /// The options with the proof that the call needs, if it needs one.
  func proving(
    _ options: CallOptions, _ method: RPCMethod, to peer: ProvingChannel.Peer
  ) throws(RPCError) -> CallOptions {
    let token = Self.boundToken(options)
    guard token != nil || Self.beginnings.contains(method.path) else { return options }
    let (key, nonce, skew) = state.withLock { ($0.key, $0.nonces[peer], $0.clockSkew ?? .zero) }
    guard let key else { return options }
    var options = options
    do throws(CryptographyError) {
      options.metadata.add("dpop", try proof(key, method, token, nonce, at: clock.now() + skew))
    } catch {
      throw RPCError(.internal, "the device key cannot sign: \(error)")
    }
    return options
  }

  private func proof(
    _ key: P256PrivateKey, _ method: RPCMethod, _ token: String?, _ nonce: String?, at now: Timestamp
  ) throws(CryptographyError) -> String {
    let header: JSONValue = [
      "typ": "dpop+jwt", "alg": "ES256",
      "jwk": [
        "kty": "EC", "crv": "P-256", "x": .string(Base64URL.encode(key.publicKey.x)),
        "y": .string(Base64URL.encode(key.publicKey.y)),
      ],
    ]
    var claims: [JSONValue.Member] = [
      .init("jti", .string(Base64URL.encode(SecureRandom.bytes(12)))),
      .init("htm", "POST"),
      // Services compare the path: scheme and host may be others behind a proxy.
      .init("htu", .string("https://latchkey\(method.path)")),
      .init("iat", .integer(now.secondsSinceEpoch)),
    ]
    if let token { claims.append(.init("ath", .string(Base64URL.encode(SHA256Hash.hash(Array(token.utf8)))))) }
    if let nonce { claims.append(.init("nonce", .string(nonce))) }
    return try CompactJWS.sign(header: header, payload: .object(claims), with: key)
  }

  private static func boundToken(_ options: CallOptions) -> String? {
    guard let value = options.metadata["authorization"], value.hasPrefix("DPoP ") else { return nil }
    return String(value.dropFirst("DPoP ".count))
  }
}
