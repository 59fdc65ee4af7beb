internal import Synchronization

/// What a handler may know and say about its call, besides the messages.
///
/// Usable from any task of the call.
package final class ServerContext: Sendable {
  package let method: RPCMethod
  package let peer: Peer
  /// When the call ends with `DEADLINE_EXCEEDED`; nil for a call that may last for ever.
  package let deadline: ContinuousClock.Instant?

  private let state: Mutex<State>
  private let cancelled = Atomic<Bool>(false)

  /// What the client can expand; `.identity` for nothing.
  package let acceptedCoding: MessageCoding

  private struct State {
    /// The metadata as it came, until somebody asks for it.
    var fields: FieldBlock
    var metadata: Metadata?
    var initialMetadata = Metadata()
    var trailingMetadata = Metadata()
    var values: [ObjectIdentifier: any Sendable] = [:]
    var compressesResponses = false
    /// The header block has told the client what to expect, or is about to.
    var isCodingSettled = false
    var wasRequestCompressed = false
  }

  package init(
    method: RPCMethod,
    metadata: Metadata = Metadata(),
    deadline: ContinuousClock.Instant? = nil,
    peer: Peer = Peer(address: "", port: 0)
  ) {
    self.method = method
    self.peer = peer
    self.deadline = deadline
    self.acceptedCoding = .identity
    self.state = Mutex(State(fields: FieldBlock(), metadata: metadata))
  }

  /// The context of a call whose metadata is read when it is asked for.
  package init(
    method: RPCMethod,
    fields: FieldBlock,
    deadline: ContinuousClock.Instant?,
    peer: Peer,
    acceptedCoding: MessageCoding = .identity,
    compressesResponses: Bool = false
  ) {
    self.method = method
    self.peer = peer
    self.deadline = deadline
    self.acceptedCoding = acceptedCoding
    self.state = Mutex(State(fields: fields, compressesResponses: compressesResponses))
  }

  /// What the client sent with the call. As much again as its fields are, and kept as long as the call: who wants to know
  /// one of them asks for it.
  package var metadata: Metadata {
    state.withLock { state in
      if let metadata = state.metadata { return metadata }
      let metadata = Metadata(state.fields)
      state.metadata = metadata
      return metadata
    }
  }

  /// The first ASCII value of `name`. Cheaper than `metadata[name]` when that is all one wants to know.
  package func firstValue(_ name: StaticString) -> String? {
    state.withLock { state in
      if let metadata = state.metadata { return metadata[name.description] }
      return state.fields.first(name)
    }
  }

  /// The ASCII value of `name`, which may come once.
  package func soleValue(_ name: StaticString) -> SoleValue {
    state.withLock { state in
      guard let metadata = state.metadata else { return state.fields.sole(name) }
      let values = metadata.entries.filter { $0.name == name.description }
      guard let first = values.first else { return .none }
      guard values.count == 1, case .ascii(let text) = first.value else { return .several }
      return .one(text)
    }
  }

  /// Whether the client left, the deadline passed or the server is closing: nobody waits for the answer.
  package var isCancelled: Bool { cancelled.load(ordering: .relaxed) }

  /// Marks the call as one that nobody waits for. Called by the transport.
  package func cancel() { cancelled.store(true, ordering: .relaxed) }

  /// The value that an interceptor left under `key`, or nil.
  package subscript<Key: ServerContextKey>(key: Key.Type) -> Key.Value? {
    get { state.withLock { $0.values[ObjectIdentifier(key)] as? Key.Value } }
    set { state.withLock { $0.values[ObjectIdentifier(key)] = newValue } }
  }

  /// Whether responses that are worth it are compressed, if the client can expand them. The server's configuration says
  /// what it is at first. Has no effect once the first response was written.
  package var compressesResponses: Bool {
    get { state.withLock { $0.compressesResponses } }
    set { state.withLock { if !$0.isCodingSettled { $0.compressesResponses = newValue } } }
  }

  /// How responses are coded; from now on that does not change.
  package var settledCoding: MessageCoding {
    guard acceptedCoding != .identity else { return .identity }
    return state.withLock { state in
      state.isCodingSettled = true
      return state.compressesResponses ? acceptedCoding : .identity
    }
  }

  /// Whether the one request message came compressed. Set by the transport.
  package var wasRequestCompressed: Bool {
    get { state.withLock { $0.wasRequestCompressed } }
    set { state.withLock { $0.wasRequestCompressed = newValue } }
  }

  /// Metadata to send ahead of the first message. Has no effect once that has been sent.
  package func addInitialMetadata(_ metadata: Metadata) {
    state.withLock { $0.initialMetadata.append(contentsOf: metadata) }
  }

  /// Metadata to send with the status.
  package func addTrailingMetadata(_ metadata: Metadata) {
    state.withLock { $0.trailingMetadata.append(contentsOf: metadata) }
  }

  /// What `addInitialMetadata` gathered.
  package var initialMetadata: Metadata { state.withLock { $0.initialMetadata } }

  /// What `addTrailingMetadata` gathered.
  package var trailingMetadata: Metadata { state.withLock { $0.trailingMetadata } }
}
