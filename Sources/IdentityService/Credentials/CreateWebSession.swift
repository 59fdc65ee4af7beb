import Domain
import GRPC
import LatchkeyModel
import LatchkeyProtos

extension AuthHandlers {
  /// A cookie in the name of the caller's session. Nothing is written: it lives and ends with the session.
  ///
  /// A session that is bound to a key gets one as well: the call itself has proved the key, browsers cannot, and the
  /// cookie is short-lived.
  package func createWebSession(
    _ request: IdentityV1.CreateWebSessionRequest,
    context: ServerContext
  ) async throws(RPCError) -> IdentityV1.CreateWebSessionResponse {
    let caller = try context.callerSession()
    let now = clock.now()
    let session = try await look(FindSession(caller))
    guard let session, session.isLive(at: now) else { throw .sessionRevoked }
    let cookies = tokens.cookies
    let cookie = cookies.make(for: session, at: now)
    return IdentityV1.CreateWebSessionResponse(
      name: cookies.name,
      value: cookie.value,
      domain: cookies.domain,
      path: "/",
      secure: cookies.isSecure,
      httpOnly: true,
      sameSite: "Lax",
      maxAge: cookie.maximumAge.components.seconds,
      expiresAt: GoogleProtobuf.Timestamp(cookie.expiry),
      setCookie: cookies.header(cookie)
    )
  }
}
