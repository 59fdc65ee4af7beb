package import GRPC

/// Where the authentication interceptor leaves the caller.
package enum CallerKey: ServerContextKey {
  package typealias Value = Caller
}

extension ServerContext {
  package var caller: Caller { self[CallerKey.self] ?? .anonymous }

  /// The subject that calls, in a method whose policy lets only subjects through.
  ///
  /// Errors: `UNAUTHENTICATED` otherwise, which only a policy that does not fit the handler can bring about.
  package func requireSubject() throws(RPCError) -> AuthenticatedSubject {
    guard case .subject(let subject) = caller else {
      throw RPCError(.unauthenticated, "an access token is required", reason: "TOKEN_INVALID")
    }
    return subject
  }
}
