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

  /// So many calls were refused for want of room or time, before `willHandle`. Neither it nor `didFinish` hears of them.
  func didRefuse(_ calls: Int, of method: RPCMethod, status: StatusCode)
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

  package func didRefuse(_ calls: Int, of method: RPCMethod, status: StatusCode) {}
}

/// What interceptors said together of calls that may be answered within their read pass.
package struct DirectCallTerms: Sendable {
  package let conditions: [@Sendable () -> Bool]
  package let tallies: [any CallTally]
}

extension [any ServerInterceptor] {
  /// Asks each, the first one first, until one refuses.
  package func willHandle(_ context: ServerContext) throws(RPCError) {
    for interceptor in self { try interceptor.willHandle(context) }
  }

  /// Nil when one of them has to look at every call.
  package func directCalls(_ context: ServerContext) -> DirectCallTerms? {
    var conditions: [@Sendable () -> Bool] = []
    var tallies: [any CallTally] = []
    for interceptor in self {
      switch interceptor.directCalls(context) {
      case .look: return nil
      case .pass(let condition): if let condition { conditions.append(condition) }
      case .count(let tally): tallies.append(tally)
      }
    }
    return DirectCallTerms(conditions: conditions, tallies: tallies)
  }

  /// Tells each of the status of a call that `willHandle` saw.
  package func didFinish(_ context: ServerContext, status: StatusCode, duration: Duration) {
    for interceptor in self { interceptor.didFinish(context, status: status, duration: duration) }
  }

  package func didRefuse(_ calls: Int, of method: RPCMethod, status: StatusCode) {
    for interceptor in self { interceptor.didRefuse(calls, of: method, status: status) }
  }
}
