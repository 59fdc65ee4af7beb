/// How the last account on a device signed in, masked: a hint for the person, never a credential.
package struct LastLoginHint: Sendable, Equatable {
  package let method: SignInMethod
  package let accountMask: String
  package let at: Timestamp

  package init(method: SignInMethod, accountMask: String, at: Timestamp) {
    self.method = method
    self.accountMask = accountMask
    self.at = at
  }
}
