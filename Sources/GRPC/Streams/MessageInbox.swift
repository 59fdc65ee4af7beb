internal import Synchronization

/// Whole messages on their way from an event loop to the one task that reads them.
///
/// The transport delivers and finishes; one task at a time awaits `next`. The bound on what waits here is the
/// stream's flow-control window: `consumed` tells the transport how many bytes the reader took, and only then does
/// it grant the peer new ones.
package final class MessageInbox: Sendable {
  private typealias Waiter = CheckedContinuation<Result<ReceivedMessage?, RPCError>, Never>

  private struct State {
    var messages = WaitingMessages()
    /// Whether the reader had its last message without waiting for it.
    var isBusy = false
    /// Set once. Comes after the messages that wait, of which an error at once leaves none.
    var end: Result<Void, RPCError>?
    var waiter: Waiter?
  }

  private let state = Mutex(State())
  /// What a message may have when it is expanded.
  let messageLimit: Int
  private let pause: (@Sendable () async -> Void)?
  private let consumed: @Sendable (Int) -> Void

  /// - Parameters:
  ///   - pause: awaited by a reader that did not have to wait for a message before it takes the next one: it may have
  ///     kept others from their work for long.
  ///   - consumed: called with the size of each message that the reader took, on the reader's thread.
  package init(
    messageLimit: Int = Limits.messageBytes,
    pause: (@Sendable () async -> Void)? = nil,
    consumed: @escaping @Sendable (Int) -> Void
  ) {
    self.messageLimit = messageLimit
    self.pause = pause
    self.consumed = consumed
  }

  /// Messages that wait for the reader.
  package var waiting: Int { state.withLock { $0.messages.count } }

  /// Adds a message, without its prefix. Ignored after the end.
  package func deliver(_ message: ReceivedMessage) {
    deliver(first: { _ in message }, waits: { $0.append(message) })
  }

  /// Adds a run of `count` messages, which are whole, each with its prefix. Ignored after the end.
  package func deliver(_ run: UnsafeRawBufferPointer, count: Int) {
    deliver(
      first: { waiting in
        // Copied before the call returns.
        unsafe waiting.append(run, count: count)
        return waiting.popFirst()
      },
      waits: { waiting in unsafe waiting.append(run, count: count) }
    )
  }

  /// - Parameters:
  ///   - first: the message of a reader that waits; what comes after it waits.
  ///   - waits: has all wait, where no reader does.
  private func deliver(
    first: (inout WaitingMessages) -> ReceivedMessage?, waits: (inout WaitingMessages) -> Void
  ) {
    let taken = state.withLock { state -> (waiter: Waiter, message: ReceivedMessage)? in
      guard state.end == nil else { return nil }
      guard let waiter = state.waiter else {
        waits(&state.messages)
        return nil
      }
      guard let message = first(&state.messages) else { return nil }
      state.waiter = nil
      state.isBusy = false
      return (waiter, message)
    }
    guard let (waiter, message) = taken else { return }
    waiter.resume(returning: .success(message))
    consumed(message.bytes.readableBytes)
  }

  /// Ends the stream: with nil after the messages that wait, with an error at once and without them, or after them
  /// if it is the status that the other side gave its messages.
  package func finish(_ error: RPCError? = nil, afterMessages: Bool = false) {
    let waiter = state.withLock { state -> Waiter? in
      guard state.end == nil else { return nil }
      if let error {
        state.end = .failure(error)
        if !afterMessages { state.messages.removeAll() }
      } else {
        state.end = .success(())
      }
      defer { state.waiter = nil }
      return state.waiter
    }
    waiter?.resume(returning: error.map { .failure($0) } ?? .success(nil))
  }

  /// The next message, nil after the last. One task at a time.
  package func next() async throws(RPCError) -> ReceivedMessage? {
    if let pause, state.withLock({ $0.isBusy }) { await pause() }
    let result = await withTaskCancellationHandler {
      await withCheckedContinuation { continuation in
        if let ready = self.takeOrWait(continuation) { continuation.resume(returning: ready) }
      }
    } onCancel: {
      self.wakeCancelled()
    }
    return try result.get()
  }

  private func takeOrWait(_ waiter: Waiter) -> Result<ReceivedMessage?, RPCError>? {
    var taken: Int?
    let ready = state.withLock { state -> Result<ReceivedMessage?, RPCError>? in
      if let message = state.messages.popFirst() {
        taken = message.bytes.readableBytes
        state.isBusy = true
        return .success(message)
      }
      switch state.end {
      case .success: return .success(nil)
      case .failure(let error): return .failure(error)
      case nil: break
      }
      // The cancellation handler may have run before there was a waiter to wake.
      if Task.isCancelled { return .failure(RPCError(.cancelled, "the call was cancelled")) }
      if state.waiter != nil { return .failure(RPCError(.internal, "two tasks read one stream")) }
      state.waiter = waiter
      return nil
    }
    // An empty one as well: it may be the last that the transport waits for.
    if let taken { consumed(taken) }
    return ready
  }

  private func wakeCancelled() {
    let waiter = state.withLock { state -> Waiter? in
      defer { state.waiter = nil }
      return state.waiter
    }
    waiter?.resume(returning: .failure(RPCError(.cancelled, "the call was cancelled")))
  }
}
