import GRPC
import LatchkeyModel
import Storage

/// One way to sign in.
///
/// A conforming type proves who the caller is and changes nothing: whether a session begins is decided afterwards,
/// with the guest's data in view. It answers alike, in text and in time, for an unknown account and a wrong secret.
protocol LoginMethod: Sendable {
  associatedtype Credential: Sendable

  static var method: SignInMethod { get }

  /// - Parameter guest: the session of the guest who signs in, by which a device is known.
  func verify(_ credential: Credential, guest: SessionID?) async throws(RPCError) -> VerifiedLogin
}

/// A credential that held.
struct VerifiedLogin: Sendable {
  let method: SignInMethod
  let account: SubjectID
  /// The account as its owner recognises it.
  let mask: String
  /// What the store checks again while it begins the session.
  let proof: SignIn.Proof
  /// To be done once the session has begun, such as storing a stronger hash.
  let afterwards: @Sendable () async -> Void

  init(
    method: SignInMethod,
    account: SubjectID,
    mask: String,
    proof: SignIn.Proof,
    afterwards: @escaping @Sendable () async -> Void = {}
  ) {
    self.method = method
    self.account = account
    self.mask = mask
    self.proof = proof
    self.afterwards = afterwards
  }
}
