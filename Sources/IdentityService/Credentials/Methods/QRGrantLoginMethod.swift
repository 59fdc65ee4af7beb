import Cryptography
import Domain
import GRPC
import LatchkeyModel
import LatchkeyProtos
import ServiceRuntime

/// Signs in by what a confirmed QR code brought to this device, so that its guest's data gets a say. The new session
/// takes the place of the code's, and is allowed no more and lasts no longer.
struct QRGrantLoginMethod: LoginMethod, Deciding {
  static let method = SignInMethod.qr

  let domain: IdentityDomain
  let tokens: TokenIssuer
  let surroundings: Surroundings

  func verify(
    _ credential: IdentityV1.QrGrantCredential,
    _ attempt: LoginAttempt
  ) async throws(RPCError) -> LoginFinding {
    let token = try RequestFields.token(credential.accessToken, "qr_grant.access_token")
    let now = clock.now()
    // A token that does not hold is a wrong secret; who holds one knows already whose it is.
    guard let claims = try tokens.genuine(token, at: now), let id = SessionID(claims.sessionID) else {
      throw .invalidCredentials
    }
    if let key = claims.keyThumbprint, key != attempt.provenKey { throw .proofInvalid }
    let session = try await look(FindSession(id))
    guard let session, session.method == .qr, session.isLive(at: now), session.client == attempt.client else {
      throw .invalidCredentials
    }
    return .account(
      VerifiedLogin(
        method: Self.method,
        account: session.subject,
        mask: try await look(FindMask(of: session.subject)),
        proof: .qrGrant(session: id, provenAt: claims.authenticatedAt),
        boundKey: claims.keyThumbprint
      ))
  }
}
