internal import Synchronization

extension ResponseWriter {
  /// Serves the rest of the call by `call`, turn by turn. To be the last thing that a handler does: where the transport
  /// can, this returns as soon as the call waits, and the stream goes on.
  package func serve(_ call: some ParkedCall) async throws(RPCError) {
    if outbox.canPark {
      if try await !call.turn() { outbox.park(call) }
      return
    }
    while try await !call.turn() {
      let sleeper = Sleeper()
      guard call.park(CallWaker(sleeper, number: 0)) else { continue }
      await withTaskCancellationHandler {
        await sleeper.sleep()
      } onCancel: {
        sleeper.wake(0)
      }
      call.unpark()
      if Task.isCancelled { throw RPCError(.cancelled, "the call was cancelled") }
    }
  }
}

/// A task that waits where a transport would keep the call.
private final class Sleeper: CallWaker.Target {
  private enum State: Sendable {
    case awake
    case asleep(CheckedContinuation<Void, Never>)
    case woken
  }

  private let state = Mutex(State.awake)

  func sleep() async {
    await withCheckedContinuation { continuation in
      let isWoken = state.withLock { state in
        if case .woken = state { return true }
        state = .asleep(continuation)
        return false
      }
      if isWoken { continuation.resume() }
    }
  }

  func wake(_ number: Int) {
    let continuation = state.withLock { state -> CheckedContinuation<Void, Never>? in
      defer { state = .woken }
      if case .asleep(let continuation) = state { return continuation }
      return nil
    }
    continuation?.resume()
  }
}
