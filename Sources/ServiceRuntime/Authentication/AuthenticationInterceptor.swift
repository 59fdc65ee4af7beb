package import GRPC

/// Decides for every call whether its caller may make it, before the request is decoded.
package struct AuthenticationInterceptor: ServerInterceptor {
  private let policies: AccessPolicies
  private let tokens: TokenAuthenticator
  private let serviceToken: ServiceToken?
  private let certificateNames: CertificateNames?
  private let stepUp: StepUpPolicy
  private let proofs: DPoPVerifier

  /// - Parameters:
  ///   - serviceToken: the secret of the services; nil where it is no proof.
  ///   - certificateNames: who a service is by its certificate; nil where that is no proof.
  ///   - proofs: decides about proofs of possession; one for all of a process, for a proof is good once in all of it.
  package init(
    policies: AccessPolicies,
    tokens: TokenAuthenticator,
    serviceToken: ServiceToken?,
    certificateNames: CertificateNames? = nil,
    stepUp: StepUpPolicy,
    proofs: DPoPVerifier = DPoPVerifier()
  ) {
    self.policies = policies
    self.tokens = tokens
    self.serviceToken = serviceToken
    self.certificateNames = certificateNames
    self.stepUp = stepUp
    self.proofs = proofs
  }

  package func willHandle(_ context: ServerContext) throws(RPCError) {
    // The bootstrap checks that every route has a policy; what has none is closed all the same.
    guard let policy = policies[context.method] else {
      throw RPCError(.permissionDenied, "the method has no access policy")
    }
    let credential = Credential(context)
    // Most calls: nothing to verify and nobody to remember.
    if policy.isOpen, case .none = credential { return }
    context[CallerKey.self] = try caller(policy, credential, context)
  }

  package func directCalls(_ context: ServerContext) -> DirectCallVerdict {
    // What has to be verified may hold for one call and not for the next.
    guard policies[context.method]?.isOpen == true, case .none = Credential(context) else { return .look }
    return .pass()
  }

  private func caller(
    _ policy: AccessPolicy,
    _ credential: Credential,
    _ context: ServerContext
  ) throws(RPCError) -> Caller {
    switch credential {
    case .token, .bound:
      // A client may attach an expired token to the very call that renews it.
      if policy.isOpen { return (try? subject(credential, context)).map { .subject($0) } ?? .anonymous }
      if policy.isForServicesOnly { throw Self.serviceOnly }
      let subject = try subject(credential, context)
      if subject.isGuest, policy.refusesGuests {
        throw RPCError(.permissionDenied, "this needs an account: sign in first", reason: "LOGIN_REQUIRED")
      }
      try policy.requirement.check(subject, stepUp, at: tokens.clock.now())
      return .subject(subject)
    case .service(let secret):
      if policy.isOpen { return .anonymous }
      guard let serviceToken, serviceToken.matches(secret) else {
        throw RPCError(.unauthenticated, "the service credential does not hold", reason: "TOKEN_INVALID")
      }
      guard policy.admitsService else {
        throw RPCError(.permissionDenied, "a service credential is not accepted here", reason: "USER_TOKEN_REQUIRED")
      }
      return .service
    case .none:
      // A connection's certificate speaks for calls that bring no credential of their own.
      if policy.admitsService, let service = certificateNames?.service(context.peer.tlsNames) {
        guard policy.admits(service) else { throw Self.serviceOnly }
        return .service
      }
      if policy.isForServicesOnly {
        throw RPCError(.unauthenticated, "a service credential is required", reason: "SERVICE_ONLY")
      }
      throw RPCError(.unauthenticated, "an access token is required", reason: "TOKEN_INVALID")
    case .unsupported:
      if policy.isOpen { return .anonymous }
      if policy.isForServicesOnly { throw Self.serviceOnly }
      throw RPCError(
        .unauthenticated,
        "the authorization metadata must be one Bearer or DPoP credential",
        reason: "TOKEN_INVALID"
      )
    }
  }

  /// The subject of a token: one that is bound to a key must come with a proof, one that is not must not pretend.
  private func subject(
    _ credential: Credential,
    _ context: ServerContext
  ) throws(RPCError) -> AuthenticatedSubject {
    switch credential {
    case .bound(let token, let proof):
      let subject = try tokens.authenticate(token)
      guard let thumbprint = subject.keyThumbprint else { throw DPoPVerifier.invalid }
      try proofs.check(proof, of: token, boundTo: thumbprint, method: context.method, at: tokens.clock.now())
      return subject
    case .token(let token):
      let subject = try tokens.authenticate(token)
      guard subject.keyThumbprint == nil else { throw DPoPVerifier.invalid }
      return subject
    case .none, .service, .unsupported:
      throw RPCError(.unauthenticated, "an access token is required", reason: "TOKEN_INVALID")
    }
  }

  private static let serviceOnly = RPCError(
    .permissionDenied,
    "only services may call this method",
    reason: "SERVICE_ONLY"
  )
}
