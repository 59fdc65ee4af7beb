import GRPC
import LatchkeyModel
import LatchkeyProtos

extension DeviceClient {
  /// Exchanges the refresh token now, without waiting for the access token to expire.
  public func refreshSession() async throws(ClientError) -> Session {
    guard let session = try storedSession() else { throw .signedOut }
    return try await refreshed(insteadOf: session).session
  }

  /// Asks the service whether this device's access token holds now.
  public func introspect() async throws(ClientError) -> TokenStatus {
    let auth = IdentityV1.AuthServiceClient(channel: identity)
    // The token that carries the call is the one asked about, also when the call is repeated with a fresh one.
    let answer = try await authorized { options throws(RPCError) in
      try await auth.introspect(IdentityV1.IntrospectRequest(token: options.bearerToken ?? ""), options: options)
    }
    return TokenStatus(
      active: answer.active,
      subject: SubjectID(answer.sub),
      isGuest: answer.isGuest,
      sessionID: answer.sid,
      scope: answer.scope,
      clientID: answer.clientID,
      issuer: answer.iss,
      audience: answer.aud,
      expiresAt: answer.expiresAt?.millisecondsSinceEpoch
    )
  }

  /// The access token that the next call would send, refreshed if it is about to expire. For calls to services that
  /// this library does not know; keep it nowhere.
  public func accessToken() async throws(ClientError) -> String {
    try await usableSession().accessToken
  }
}
