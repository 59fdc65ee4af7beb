import LatchkeyModel
import Storage

/// Whom a credential that held leads to.
enum LoginFinding: Sendable {
  case account(VerifiedLogin)
  /// Somebody who is known for certain, and has no account yet.
  case newcomer(Newcomer)
}

/// Who is about to get an account.
struct Newcomer: Sendable {
  let method: SignInMethod
  let identifier: AccountIdentifier
  let profile: Profile
  /// What the credential answered.
  let challenge: UsedChallenge
}
