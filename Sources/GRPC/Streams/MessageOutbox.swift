package import NIOCore
internal import Synchronization

/// Framed messages on their way from the writing tasks to an event loop.
///
/// A write returns at once while little waits, and otherwise when the transport has taken enough of it: a peer that
/// does not read stops the writer instead of filling memory.
package final class MessageOutbox: Sendable {
  private struct Waiter {
    let number: Int
    /// Bytes that may be pending when it goes on.
    let limit: Int
    let continuation: CheckedContinuation<RPCError?, Never>
  }

  private struct State {
    // Arrays: an empty one takes no memory, and most outboxes of waiting calls are.
    var frames: [ByteBuffer] = []
    /// Bytes written and not yet on their way to the socket.
    var pending = 0
    var signalled = false
    var end: End?
    var waiters: [Waiter] = []
    /// How many writes have begun to wait.
    var waits = 0
    var parked: (any ParkedCall)?
  }

  /// In a box: an error is larger than all the rest, and an outbox that waits has none.
  private final class End: Sendable {
    let error: RPCError

    init(_ error: RPCError) { self.error = error }
  }

  private let state = Mutex(State())
  private let ready: @Sendable () -> Void

  /// Whether who takes the frames also runs a `ParkedCall`.
  let canPark: Bool

  /// - Parameter ready: called on the writer's thread when frames wait and none did before.
  package init(canPark: Bool = false, ready: @escaping @Sendable () -> Void) {
    self.canPark = canPark
    self.ready = ready
  }

  /// The call goes on in turns once its handler has returned.
  func park(_ call: any ParkedCall) {
    state.withLock { $0.parked = call }
  }

  /// The last turn is over.
  package func endParking() {
    state.withLock { $0.parked = nil }
  }

  /// What goes on once the handler has returned: nil for a call that is over then.
  package var parked: (any ParkedCall)? { state.withLock { $0.parked } }

  /// Queues a frame, prefix included, and waits while the transport is behind.
  ///
  /// - Parameter untilPending: waits until no more bytes than this wait; nil for as the bounds say.
  package func write(_ frame: ByteBuffer, untilPending: Int? = nil) async throws(RPCError) {
    let (failure, signal, wait) = state.withLock { state -> (RPCError?, Bool, Int?) in
      if let end = state.end { return (end.error, false, nil) }
      let signal = !state.signalled && frame.readableBytes > 0
      if frame.readableBytes > 0 {
        state.signalled = true
        state.pending += frame.readableBytes
        state.frames.append(frame)
      }
      guard state.pending > untilPending ?? Limits.outboxHighWater else { return (nil, signal, nil) }
      state.waits += 1
      return (nil, signal, state.waits)
    }
    if let failure { throw failure }
    if signal { ready() }
    guard let number = wait else { return }
    let error = await withTaskCancellationHandler {
      await withCheckedContinuation { (continuation: CheckedContinuation<RPCError?, Never>) in
        let now = self.state.withLock { state -> RPCError?? in
          if let end = state.end { return .some(end.error) }
          if state.pending <= untilPending ?? Limits.outboxLowWater { return .some(nil) }
          if Task.isCancelled { return .some(RPCError(.cancelled, "the call was cancelled")) }
          let limit = untilPending ?? Limits.outboxLowWater
          state.waiters.append(Waiter(number: number, limit: limit, continuation: continuation))
          return nil
        }
        if let now { continuation.resume(returning: now) }
      }
    } onCancel: {
      self.cancel(number)
    }
    if let error { throw error }
  }

  /// The frames that wait, for the transport.
  package func take() -> [ByteBuffer] {
    state.withLock { state in
      state.signalled = false
      let frames = state.frames
      state.frames = []
      return frames
    }
  }

  /// Tells that `bytes` of the frames taken have left the stream's queue.
  package func sent(_ bytes: Int) {
    let waiters = state.withLock { state -> [Waiter] in
      state.pending -= bytes
      guard !state.waiters.isEmpty else { return [] }
      let pending = state.pending
      let waiters = state.waiters.filter { pending <= $0.limit }
      if !waiters.isEmpty { state.waiters.removeAll { pending <= $0.limit } }
      return waiters
    }
    for waiter in waiters { waiter.continuation.resume(returning: nil) }
  }

  /// Fails this and every later write: the stream is gone.
  package func close(_ error: RPCError) {
    let waiters = state.withLock { state -> [Waiter] in
      if state.end == nil { state.end = End(error) }
      state.frames.removeAll()
      let waiters = state.waiters
      state.waiters = []
      return waiters
    }
    for waiter in waiters { waiter.continuation.resume(returning: error) }
  }

  /// The task of one write was cancelled. The others go on waiting.
  private func cancel(_ number: Int) {
    let waiter = state.withLock { state -> Waiter? in
      guard let index = state.waiters.firstIndex(where: { $0.number == number }) else { return nil }
      return state.waiters.remove(at: index)
    }
    waiter?.continuation.resume(returning: RPCError(.cancelled, "the call was cancelled"))
  }
}
