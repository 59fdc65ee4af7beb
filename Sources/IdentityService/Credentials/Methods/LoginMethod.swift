import GRPC
import LatchkeyModel

/// One way to sign in.
///
/// A conforming type proves who the caller is and begins nothing: whether a session begins is decided afterwards, with
/// the guest's data in view, and what the credential uses up is used up then. Its stored properties are what it needs. It answers alike, in text and in time, for
/// an unknown account and a wrong secret, and counts tries before it looks at them.
protocol LoginMethod: Sendable {
  associatedtype Credential: Sendable

  static var method: SignInMethod { get }

  func verify(_ credential: Credential, _ attempt: LoginAttempt) async throws(RPCError) -> LoginFinding
}
