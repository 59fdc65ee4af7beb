/// Sees every call before and after its handler.
package protocol ServerInterceptor: Sendable {
  /// Runs before the request is decoded. Throwing ends the call with that status and no handler.
  ///
  /// Synchronous and on the connection's event loop: look, decide, return.
  func willHandle(_ context: ServerContext) throws(RPCError)

  /// Runs once for every call that `willHandle` saw, when its status is known.
  func didFinish(_ context: ServerContext, status: StatusCode, duration: Duration)
}

extension ServerInterceptor {
  package func willHandle(_ context: ServerContext) throws(RPCError) {}

  package func didFinish(_ context: ServerContext, status: StatusCode, duration: Duration) {}
}
