import GRPC
import LatchkeyModel
import LatchkeyProtos

extension DeviceClient {
  /// The live sessions of whoever uses this device, the newest first.
  public func sessions() async throws(ClientError) -> [ListedSession] {
    let service = IdentityV1.SessionServiceClient(channel: identity)
    let answer = try await authorized { options throws(RPCError) in
      try await service.listSessions(IdentityV1.ListSessionsRequest(), options: options)
    }
    return answer.sessions.map { session in
      ListedSession(
        sessionID: session.sid,
        clientID: session.clientID,
        method: session.method,
        deviceLabel: session.deviceLabel,
        platform: session.platform,
        scope: session.scope,
        createdAt: session.createdAt?.millisecondsSinceEpoch,
        lastUsedAt: session.lastUsedAt?.millisecondsSinceEpoch,
        expiresAt: session.expiresAt?.millisecondsSinceEpoch,
        isCurrent: session.current,
        isConfirmed: session.confirmed
      )
    }
  }

  /// Ends one of them. False when it had ended before.
  public func endSession(_ sessionID: String) async throws(ClientError) -> Bool {
    let service = IdentityV1.SessionServiceClient(channel: identity)
    return try await authorized { options throws(RPCError) in
      try await service.revokeSession(IdentityV1.RevokeSessionRequest(sid: sessionID), options: options)
    }.ended
  }

  /// Ends all but this device's. Returns how many.
  public func endOtherSessions() async throws(ClientError) -> Int64 {
    let service = IdentityV1.SessionServiceClient(channel: identity)
    return try await authorized { options throws(RPCError) in
      try await service.revokeOtherSessions(IdentityV1.RevokeOtherSessionsRequest(), options: options)
    }.sessionsEnded
  }

  /// Says of a session that a code began that it is one's own.
  public func confirmSession(_ sessionID: String) async throws(ClientError) {
    let service = IdentityV1.SessionServiceClient(channel: identity)
    _ = try await authorized { options throws(RPCError) in
      try await service.confirmSession(IdentityV1.ConfirmSessionRequest(sid: sessionID), options: options)
    }
  }

  /// A cookie by which a web view acts in the name of this device's session, for an hour or until the session ends.
  public func webSession() async throws(ClientError) -> CookieSpec {
    let auth = IdentityV1.AuthServiceClient(channel: identity)
    let cookie = try await authorized { options throws(RPCError) in
      try await auth.createWebSession(IdentityV1.CreateWebSessionRequest(), options: options)
    }
    return CookieSpec(
      name: cookie.name,
      value: cookie.value,
      domain: cookie.domain,
      path: cookie.path,
      isSecure: cookie.secure,
      isHTTPOnly: cookie.httpOnly,
      sameSite: cookie.sameSite,
      maximumAge: .told(seconds: cookie.maxAge),
      header: cookie.setCookie
    )
  }
}
