import GRPC
import LatchkeyModel
import LatchkeyProtos
import ServiceRuntime
import Synchronization

/// One WatchSession call. Waits parked: a hundred thousand screens do little else.
final class SessionWatch: ParkedCall {
  private struct State {
    /// The latest version that was sent.
    var reported: Int64 = 0
    var wake = PollWake.changed
    var number: UInt64 = 0
    var waker: CallWaker?
  }

  private let api: QRSessionAPI
  private let secret: Digest256
  private let proof: RedeemProof?
  private let responses: ResponseWriter<QRV1.WatchSessionResponse>
  private let context: ServerContext
  private let state = Mutex(State())

  init(
    _ api: QRSessionAPI,
    _ secret: Digest256,
    _ proof: RedeemProof?,
    _ responses: ResponseWriter<QRV1.WatchSessionResponse>,
    _ context: ServerContext
  ) {
    self.api = api
    self.secret = secret
    self.proof = proof
    self.responses = responses
    self.context = context
  }

  /// Tells the state if the watcher does not know it.
  func turn() async throws(RPCError) -> Bool {
    let (reported, wake) = state.withLock { ($0.reported, $0.wake) }
    switch wake {
    case .changed: break
    // With a deadline, the client knows when it is over.
    case .timedOut: return true
    case .displaced: throw RPCError(.aborted, "too many others watch the session")
    case .stopping: throw .watchEnded(isStopping: true)
    case .cancelled: throw RPCError(.cancelled, "the watch was cancelled")
    }
    guard let view = api.table.view(secret, at: api.clock.now()) else {
      // Forgotten: it ended, and whoever watches has been told.
      guard reported > 0 else { throw .unknownDeviceCode }
      return true
    }
    guard view.version > reported else { return false }
    if try await api.report(view, proof, responses, context) { return true }
    state.withLock { $0.reported = view.version }
    return false
  }

  func park(_ waker: CallWaker) -> Bool {
    let number = api.table.nextWaiterNumber()
    let reported = state.withLock { state in
      state.waker = waker
      state.number = number
      state.wake = .changed
      return state.reported
    }
    let due = context.deadline.map { $0 - Limits.answerMargin }
    let wake = api.table.park(self, number: number, of: secret, after: reported, until: due, at: api.clock.now())
    guard let wake else { return true }
    state.withLock { $0.wake = wake }
    return false
  }

  func unpark() {
    api.table.unpark(state.withLock { $0.number }, of: secret)
  }

  /// The wait is over, for this reason.
  func woken(_ wake: PollWake) {
    let waker = state.withLock { state in
      state.wake = wake
      return state.waker
    }
    waker?.wake()
  }
}
