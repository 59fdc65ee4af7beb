import GRPC
import Synchronization

/// Counts calls, to see that each one that starts finishes.
final class CallCounter: ServerInterceptor {
  private let state = Mutex((started: 0, finished: 0))

  var started: Int { state.withLock { $0.started } }
  var finished: Int { state.withLock { $0.finished } }

  func willHandle(_ context: ServerContext) throws(RPCError) { state.withLock { $0.started += 1 } }

  func didFinish(_ context: ServerContext, status: StatusCode, duration: Duration) {
    state.withLock { $0.finished += 1 }
  }
}
