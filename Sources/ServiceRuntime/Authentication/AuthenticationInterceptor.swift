package import GRPC

/// Decides for every call whether its caller may make it, before the request is decoded.
package struct AuthenticationInterceptor: ServerInterceptor {
  private let policies: AccessPolicies
  private let tokens: TokenAuthenticator
  private let serviceToken: ServiceToken

  package init(policies: AccessPolicies, tokens: TokenAuthenticator, serviceToken: ServiceToken) {
    self.policies = policies
    self.tokens = tokens
    self.serviceToken = serviceToken
  }

  package func willHandle(_ context: ServerContext) throws(RPCError) {
    // The bootstrap checks that every route has a policy; what has none is closed all the same.
    guard let policy = policies[context.method] else {
      throw RPCError(.permissionDenied, "the method has no access policy")
    }
    let credential = Credential(context.metadata)
    // Most calls: nothing to verify and nobody to remember.
    if policy == .open, case .none = credential { return }
    context[CallerKey.self] = try caller(policy, credential)
  }

  private func caller(_ policy: AccessPolicy, _ credential: Credential) throws(RPCError) -> Caller {
    switch (policy, credential) {
    case (.open, .token(let token)):
      // A client may attach an expired token to the very call that renews it.
      return (try? tokens.authenticate(token)).map { .subject($0) } ?? .anonymous
    case (.open, _):
      return .anonymous
    case (_, .service(let secret)):
      guard serviceToken.matches(secret) else {
        throw RPCError(.unauthenticated, "the service credential does not hold", reason: "TOKEN_INVALID")
      }
      guard policy.admitsService else {
        throw RPCError(.permissionDenied, "a service credential is not accepted here", reason: "USER_TOKEN_REQUIRED")
      }
      return .service
    case (.service, .token), (.service, .unsupported):
      throw RPCError(.permissionDenied, "only services may call this method", reason: "SERVICE_ONLY")
    case (.service, .none):
      throw RPCError(.unauthenticated, "a service credential is required", reason: "SERVICE_ONLY")
    case (_, .token(let token)):
      let subject = try tokens.authenticate(token)
      if subject.isGuest, policy.refusesGuests {
        throw RPCError(.permissionDenied, "this needs an account: sign in first", reason: "LOGIN_REQUIRED")
      }
      return .subject(subject)
    case (_, .none):
      throw RPCError(.unauthenticated, "an access token is required", reason: "TOKEN_INVALID")
    case (_, .unsupported):
      throw RPCError(
        .unauthenticated,
        "the authorization metadata must be one Bearer credential",
        reason: "TOKEN_INVALID"
      )
    }
  }
}
