internal import Synchronization

/// Gathers what a server sends beside its messages, for a caller that wants to see it.
///
///     let received = ResponseMetadata()
///     _ = try await client.getThing(request, options: CallOptions(responseMetadata: received))
///     received.trailing["x-served-by"]
package final class ResponseMetadata: Sendable {
  private let state = Mutex((initial: Metadata(), trailing: Metadata(), wasCompressed: false))

  package init() {}

  /// What came ahead of the first message.
  package var initial: Metadata { state.withLock { $0.initial } }

  /// What came with the status. The call's error carries it as well.
  package var trailing: Metadata { state.withLock { $0.trailing } }

  /// Whether the one response of a call that has one came compressed.
  package var wasCompressed: Bool { state.withLock { $0.wasCompressed } }

  package func receivedMessage(compressed: Bool) {
    state.withLock { $0.wasCompressed = compressed }
  }

  package func receivedInitial(_ fields: FieldBlock) {
    let metadata = Metadata(fields)
    state.withLock { $0.initial = metadata }
  }

  package func receivedTrailing(_ fields: FieldBlock) {
    let metadata = Metadata(fields)
    state.withLock { $0.trailing = metadata }
  }
}
