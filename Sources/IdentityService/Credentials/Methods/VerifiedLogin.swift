import Domain
import LatchkeyModel
import Storage

/// A credential that held.
struct VerifiedLogin: Sendable {
  let method: SignInMethod
  let account: SubjectID
  /// The account as its owner recognises it.
  let mask: String
  /// What the store checks again while it begins the session.
  let proof: SignIn.Proof
  /// What the credential answered: used up as the session begins, so that a conflict costs nobody their credential.
  let challenge: UsedChallenge?
  /// Thumbprint of the key that the credential is bound to, which the call has proven; nil for none.
  let boundKey: String?
  /// The try that was counted for it, to be settled by what it is presented for; nil where none was, or it is settled.
  let counted: CountedAttempt?
  /// To be done once the session has begun, such as storing a stronger hash.
  let afterwards: @Sendable () async -> Void

  init(
    method: SignInMethod,
    account: SubjectID,
    mask: String,
    proof: SignIn.Proof,
    challenge: UsedChallenge? = nil,
    boundKey: String? = nil,
    counted: CountedAttempt? = nil,
    afterwards: @escaping @Sendable () async -> Void = {}
  ) {
    self.method = method
    self.account = account
    self.mask = mask
    self.proof = proof
    self.challenge = challenge
    self.boundKey = boundKey
    self.counted = counted
    self.afterwards = afterwards
  }

  /// The session that a QR code began and that the new one will replace.
  var qrSession: SessionID? {
    if case .qrGrant(let session, _) = proof { session } else { nil }
  }
}
