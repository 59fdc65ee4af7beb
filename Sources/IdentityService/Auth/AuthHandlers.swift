import GRPC
import LatchkeyModel
import LatchkeyProtos
import ServiceRuntime

/// Answers `latchkey.identity.v1.AuthService`, one file for each method.
package struct AuthHandlers: IdentityV1.AuthService {
  let core: IdentityCore

  package init(_ core: IdentityCore) {
    self.core = core
  }

  /// The session of a guest's access token; nil when none was sent. A token that is bound to a key counts only from who
  /// has proven that key: its data is at stake.
  func guestSession(
    of token: String, provenKey: String?, at now: LatchkeyModel.Timestamp
  ) throws(RPCError) -> SessionID? {
    guard !token.isEmpty else { return nil }
    let claims = try verified(try RequestFields.token(token, "guest_token"), at: now)
    guard claims.isGuest else { throw .invalid("guest_token", "is an account's token, not a guest's") }
    if let key = claims.keyThumbprint, key != provenKey { throw DPoPVerifier.invalid }
    guard let session = SessionID(claims.sessionID) else { throw .tokenInvalid }
    return session
  }
}
