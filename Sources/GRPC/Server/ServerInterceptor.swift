/// Sees every call before and after its handler.
package protocol ServerInterceptor: Sendable {
  /// Runs before the request is decoded. Throwing ends the call with that status and no handler.
  ///
  /// Synchronous and on the connection's event loop: look, decide, return.
  func willHandle(_ context: ServerContext) throws(RPCError)

  /// What `willHandle` would say to a call like this one, for the calls that are answered within their read pass.
  ///
  /// Asked once for a header block, not for each call that comes with the same block again. Decides without doing
  /// anything.
  func directCalls(_ context: ServerContext) -> DirectCallVerdict

  /// Runs once for every call that `willHandle` saw, when its status is known.
  func didFinish(_ context: ServerContext, status: StatusCode, duration: Duration)
}

/// What an interceptor says of all calls with one header block.
package enum DirectCallVerdict: Sendable {
  /// Each has to be looked at: none is answered directly.
  case look
  /// They pass, for as long as the condition holds if there is one, and nobody need be told of those that went well.
  case pass(while: (@Sendable () -> Bool)? = nil)
  /// They pass, and those that went well are counted.
  case count(any CallTally)
}

/// Counts calls that went well, many at a time.
package protocol CallTally: Sendable {
  /// - Parameter nanoseconds: how long each of them took.
  func add(_ calls: Int, nanoseconds: Int64)
}

extension ServerInterceptor {
  package func directCalls(_ context: ServerContext) -> DirectCallVerdict { .look }

  package func willHandle(_ context: ServerContext) throws(RPCError) {}

  package func didFinish(_ context: ServerContext, status: StatusCode, duration: Duration) {}
}
