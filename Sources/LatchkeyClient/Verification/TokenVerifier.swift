import Cryptography
import GRPC
import LatchkeyModel
import LatchkeyProtos
import TLS
import TransportClient

/// Verifies access tokens in a service of your own.
///
/// The issuer's keys are fetched from the identity service when they are first needed, kept, and fetched again when they
/// are old or a token names one that is not known; made-up names are no load on anybody. Verifying itself is local and
/// costs about 100 µs. A session that has ended is not noticed before its token expires, at most 15 minutes by default:
/// ask `AuthService/Introspect` where that is too long.
///
/// ```swift
/// let verifier = try TokenVerifier(
///   identity: ServiceAddress(host: "id.example", port: 7401), tls: ClientTLS(), issuer: "https://id.example",
///   audience: "shop")
/// let caller = try await verifier.verify(token)
/// ```
///
/// `audience` is one of identity's `token.audiences`. Call ``close()`` when done.
public actor TokenVerifier {
  package typealias Fetch = @Sendable () async throws(RPCError) -> JSONWebKeySet

  private let issuer: String
  private let audience: String
  private let clock: any WallClock
  private let fetch: Fetch
  private let closing: @Sendable () async -> Void
  private var known: (keys: JSONWebKeySet, fetchedAt: Timestamp)?
  private var lastTry: Timestamp?
  private var running: Task<Void, Never>?

  /// Nothing is opened before the first token.
  ///
  /// Errors: ``ClientError/unusableAuthorities(_:)`` when the trusted certificates cannot be read.
  public init(
    identity: ServiceAddress, tls: ClientTLS? = nil, issuer: String, audience: String
  ) throws(ClientError) {
    let channel = try ClientChannel(to: identity, tls)
    let client = IdentityV1.AuthServiceClient(channel: channel)
    self.init(
      issuer: issuer,
      audience: audience,
      fetch: { () throws(RPCError) in
        let options = CallOptions(timeout: Limits.keysTimeout)
        let answer = try await client.getJwks(IdentityV1.GetJwksRequest(), options: options)
        guard let keys = try? JSONWebKeySet(parsing: Array(answer.jwksJSON.utf8)) else {
          throw RPCError(.dataLoss, "identity answered with no usable key set")
        }
        return keys
      },
      closing: { await channel.close(grace: Limits.closeGrace) }
    )
  }

  package init(
    issuer: String,
    audience: String,
    clock: any WallClock = SystemClock(),
    fetch: @escaping Fetch,
    closing: @escaping @Sendable () async -> Void = {}
  ) {
    self.issuer = issuer
    self.audience = audience
    self.clock = clock
    self.fetch = fetch
    self.closing = closing
  }

  /// What the token says, if it holds now.
  ///
  /// - Parameter provenKey: the thumbprint (RFC 7638) of the key that the call's `dpop` proof has shown, where you check
  ///   such proofs. Without it, tokens that are bound to a key are refused.
  public func verify(_ token: String, provenKey: String? = nil) async throws(TokenRefusal) -> VerifiedToken {
    let now = clock.now()
    if known == nil || isOld(at: now) { await refresh(at: now) }
    do throws(TokenRefusal) {
      return try check(token, provenKey, at: now)
    } catch {
      // The issuer may sign with a key that is newer than ours.
      guard error == .invalid, let name = Self.keyName(token), known?.keys[name] == nil else { throw error }
      await refresh(at: now)
      return try check(token, provenKey, at: now)
    }
  }

  /// Ends the connection to the identity service.
  public func close() async {
    await closing()
  }

  private func check(
    _ token: String, _ provenKey: String?, at now: Timestamp
  ) throws(TokenRefusal) -> VerifiedToken {
    guard let keys = known?.keys else { throw .keysUnavailable }
    let claims: AccessTokenClaims
    do throws(TokenError) {
      claims = try AccessTokenVerifier(keys: keys, issuer: issuer, audience: audience).verify(token, at: now)
    } catch {
      throw error == .expired ? .expired : .invalid
    }
    if let key = claims.keyThumbprint {
      guard let provenKey, ConstantTime.equals(key, provenKey) else { throw .proofRequired }
    }
    return VerifiedToken(
      subject: SubjectID(claims.subject),
      isGuest: claims.isGuest,
      sessionID: claims.sessionID,
      clientID: claims.clientID,
      scope: claims.scope,
      expiresAt: claims.expiresAt.secondsSinceEpoch,
      authenticatedAt: claims.authenticatedAt?.secondsSinceEpoch,
      authenticationMethods: claims.authenticationMethods
    )
  }

  private static func keyName(_ token: String) -> String? {
    (try? CompactJWS(parsing: token))?.header["kid"]?.string
  }

  private func isOld(at now: Timestamp) -> Bool {
    guard let known else { return true }
    return now >= known.fetchedAt + Limits.keysFresh || now < known.fetchedAt
  }

  /// One fetch at a time, and not too often. One that fails leaves the keys as they were.
  private func refresh(at now: Timestamp) async {
    if let running { return await running.value }
    if let lastTry, now >= lastTry, now < lastTry + Limits.keysDistance { return }
    lastTry = now
    // A task of its own: whoever was first may leave, the others still want the keys.
    let task = Task {
      if let keys = try? await fetch() { known = (keys, now) }
    }
    running = task
    await task.value
    running = nil
  }
}
