import Cryptography
import GRPC
import LatchkeyModel
import LatchkeyProtos
import Synchronization

/// Just enough of an identity service for the client's side of the story: it checks proofs, gives one guest to one
/// key, and rotates refresh tokens.
final class SmallIdentity: IdentityV1.GuestService, IdentityV1.AuthService {
  struct State {
    var challenges: Set<String> = []
    /// Key thumbprint → sub.
    var guests: [String: String] = [:]
    var refreshToken = ""
    var accessToken = ""
    var serial = 0
    var refreshes = 0
    var lifetime: Int64 = 900
    /// Calls every access token expired, also a new one.
    var takesNoToken = false
    /// Refuses Refresh with this reason.
    var refusal: String?
  }

  let state = Mutex(State())
  let clock: any WallClock

  init(clock: any WallClock) {
    self.clock = clock
  }

  var routes: [RPCRoute] { IdentityV1.guestServiceRoutes(self) + IdentityV1.authServiceRoutes(self) }

  func getChallenge(
    _ request: IdentityV1.GetChallengeRequest,
    context: ServerContext
  ) async throws(RPCError) -> IdentityV1.GetChallengeResponse {
    let challenge = Base64URL.encode(SecureRandom.bytes(32))
    state.withLock { _ = $0.challenges.insert(challenge) }
    return IdentityV1.GetChallengeResponse(challenge: challenge, powBits: 4, expiresIn: 60)
  }

  func issueGuest(
    _ request: IdentityV1.IssueGuestRequest,
    context: ServerContext
  ) async throws(RPCError) -> IdentityV1.IssueGuestResponse {
    guard state.withLock({ $0.challenges.remove(request.challenge) }) != nil else {
      throw RPCError.invalid("challenge", "unknown")
    }
    guard let device = request.device, let jwk = device.publicKey,
      let key = try? P256PublicKey(jwkX: jwk.x, y: jwk.y)
    else { throw RPCError.invalid("device.public_key", "not a key") }
    let parts = ["latchkey-device-proof-v1", request.clientID, device.deviceID, request.challenge]
    let message = Array(parts.map { Array($0.utf8) }.joined(separator: [0]))
    guard key.verify(signature: request.proof, message: message) else {
      throw RPCError(.unauthenticated, "wrong proof")
    }
    let work = SHA256Hash.hash(Array(request.challenge.utf8) + request.powSolution)
    guard work[0] < 0x10 else { throw RPCError.invalid("pow_solution", "too little work") }
    let (sub, created) = state.withLock { state in
      if let sub = state.guests[key.thumbprint] { return (sub, false) }
      let sub = "guest-\(state.guests.count + 1)"
      state.guests[key.thumbprint] = sub
      return (sub, true)
    }
    return IdentityV1.IssueGuestResponse(
      tokens: tokens(),
      subject: CommonV1.Subject(sub: sub, isGuest: true),
      created: created,
      storageNamespace: "ns-\(sub)"
    )
  }

  func refresh(
    _ request: IdentityV1.RefreshRequest,
    context: ServerContext
  ) async throws(RPCError) -> IdentityV1.RefreshResponse {
    let refusal = state.withLock { state -> String? in
      state.refreshes += 1
      return state.refusal ?? (request.refreshToken == state.refreshToken ? nil : "REFRESH_TOKEN_REUSED")
    }
    if let refusal { throw RPCError(.unauthenticated, "refused", reason: refusal) }
    return IdentityV1.RefreshResponse(tokens: tokens())
  }

  /// The one authenticated method that the tests call: says whose token it was.
  func introspect(
    _ request: IdentityV1.IntrospectRequest,
    context: ServerContext
  ) async throws(RPCError) -> IdentityV1.IntrospectResponse {
    let current = state.withLock { $0.takesNoToken ? "none" : $0.accessToken }
    guard context.metadata["authorization"] == "Bearer \(current)" else {
      throw RPCError(.unauthenticated, "expired", reason: "TOKEN_EXPIRED")
    }
    return IdentityV1.IntrospectResponse(active: true, sub: "guest-1")
  }

  /// Ends the access token before its time, as a server with a key rotation or a changed clock does.
  func expireAccessToken() {
    state.withLock { $0.accessToken = "none" }
  }

  private func tokens() -> CommonV1.TokenSet {
    let now = clock.now().millisecondsSinceEpoch
    return state.withLock { state in
      state.serial += 1
      state.accessToken = "access-\(state.serial)"
      state.refreshToken = "refresh-\(state.serial)"
      return CommonV1.TokenSet(
        accessToken: state.accessToken,
        tokenType: "Bearer",
        expiresIn: state.lifetime,
        refreshToken: state.refreshToken,
        refreshExpiresIn: 3600,
        scope: "guest",
        sid: "session-1",
        serverTime: GoogleProtobuf.Timestamp(millisecondsSinceEpoch: now)
      )
    }
  }

  func register(
    _ request: IdentityV1.RegisterRequest,
    context: ServerContext
  ) async throws(RPCError) -> IdentityV1.RegisterResponse { throw Self.absent }

  func authenticate(
    _ request: IdentityV1.AuthenticateRequest,
    context: ServerContext
  ) async throws(RPCError) -> IdentityV1.AuthenticateResponse { throw Self.absent }

  func revoke(
    _ request: IdentityV1.RevokeRequest,
    context: ServerContext
  ) async throws(RPCError) -> IdentityV1.RevokeResponse { throw Self.absent }

  func getJwks(
    _ request: IdentityV1.GetJwksRequest,
    context: ServerContext
  ) async throws(RPCError) -> IdentityV1.GetJwksResponse { throw Self.absent }

  func logout(
    _ request: IdentityV1.LogoutRequest,
    context: ServerContext
  ) async throws(RPCError) -> IdentityV1.LogoutResponse { throw Self.absent }

  private static let absent = RPCError(.unimplemented, "not part of these tests")
}
