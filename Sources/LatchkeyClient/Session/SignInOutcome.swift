/// How a sign-in ended.
public enum SignInOutcome: Sendable, Equatable {
  case signedIn(SignIn)
  /// The identity already has an account and this guest has data: nobody is signed in yet, a person chooses.
  case conflict(SignInConflict)
}
