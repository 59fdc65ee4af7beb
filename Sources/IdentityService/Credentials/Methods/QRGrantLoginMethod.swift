import Cryptography
import GRPC
import LatchkeyModel
import LatchkeyProtos
import Storage

/// Signs in by what a confirmed QR code brought to this device, so that its guest's data gets a say. The new session
/// takes the place of the code's, and is allowed no more and lasts no longer.
struct QRGrantLoginMethod: LoginMethod, Surrounded {
  static let method = SignInMethod.qr

  let sessions: any SessionStore
  let links: any LinkStore
  let tokens: TokenIssuer
  let surroundings: Surroundings

  func verify(
    _ credential: IdentityV1.QrGrantCredential,
    _ attempt: LoginAttempt
  ) async throws(RPCError) -> LoginFinding {
    let token = try RequestFields.token(credential.accessToken, "qr_grant.access_token")
    let now = clock.now()
    // A token that does not hold is a wrong secret; who holds one knows already whose it is.
    guard let claims = try? tokens.verify(token, at: now), let id = SessionID(claims.sessionID) else {
      throw .invalidCredentials
    }
    if let key = claims.keyThumbprint, key != attempt.provenKey { throw .proofInvalid }
    let session = try await stored { () throws(StorageError) in try await sessions.session(id) }
    guard let session, session.method == .qr, session.isLive(at: now), session.client == attempt.client else {
      throw .invalidCredentials
    }
    let identities = try await stored { () throws(StorageError) in
      try await links.identities(of: session.subject)
    }
    return .account(
      VerifiedLogin(
        method: Self.method,
        account: session.subject,
        mask: identities.first?.mask ?? "",
        proof: .qrGrant(session: id)
      ))
  }
}
