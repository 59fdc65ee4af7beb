internal import NIOCore

/// Reads the response side of a call: header block, messages, trailers.
///
/// ```
///            header block                      trailers, end of stream
///   head ────────────────────▶ messages ─────────────────────────────────▶ ended
///     │ Trailers-Only, not gRPC     │ broken message                         ▲
///     └─────────────────────────────┴────────────────────────────────────────┘
/// ```
///
/// Source: gRPC over HTTP/2, "Responses".
package struct ResponseReader: Sendable {
  /// How the call ended, as far as the response says.
  package struct End: Sendable {
    /// nil for OK.
    package var error: RPCError?
    package var pushback = RetryPushback.none
  }

  /// Turns `grpc-status-details-bin` into details; nil when it does not decode.
  package typealias DetailsDecoder = @Sendable ([UInt8]) -> RPCError.Details?

  private enum State {
    case head
    case messages
    case ended
  }

  private var state = State.head
  private var block = ResponseHead()
  private var framer: MessageFramer
  private let decodeDetails: DetailsDecoder
  /// The status of a block that had one; it counts once the stream ends.
  private var end: End?
  /// The metadata of the header block; empty for a Trailers-Only response.
  package private(set) var initialFields = FieldBlock()
  package private(set) var trailingFields = FieldBlock()
  /// A header block came that was not also the end: the server has begun to answer.
  package private(set) var hasHeaders = false

  /// - Parameter messageLimit: the largest message to take.
  package init(messageLimit: Int, decodeDetails: @escaping DetailsDecoder) {
    framer = MessageFramer(limit: messageLimit)
    self.decodeDetails = decodeDetails
  }

  /// Takes one field of a block.
  package mutating func receive(_ name: UnsafeRawBufferPointer, _ value: UnsafeRawBufferPointer) {
    unsafe block.receive(name, value)
  }

  /// A 1xx block is complete: it says nothing to gRPC.
  package mutating func completeInformational() {
    block = ResponseHead()
  }

  /// The header block is complete. Answers the error that ends the call at once, if there is one.
  package mutating func completeHead() -> RPCError? {
    let head = block
    block = ResponseHead()
    guard case .head = state else { return nil }
    state = .messages
    if head.status != nil {
      trailingFields = head.fields
      end = makeEnd(head)
      return nil
    }
    guard head.isGRPC else {
      let status = head.httpStatus.map(String.init) ?? "none"
      return RPCError(
        head.httpStatus.map(StatusCode.init(httpStatus:)) ?? .unknown,
        "the server did not answer with gRPC (HTTP status \(status))"
      )
    }
    guard let coding = head.coding else {
      return RPCError(.internal, "the server compressed its messages in a way that was not agreed")
    }
    framer.coding = coding
    hasHeaders = true
    initialFields = head.fields
    return nil
  }

  /// The trailers are complete.
  package mutating func completeTrailers() {
    let trailers = block
    block = ResponseHead()
    guard case .messages = state, trailers.status != nil else { return }
    trailingFields = trailers.fields
    end = makeEnd(trailers)
  }

  /// Takes bytes of the body and hands on each message that they complete.
  package mutating func receive(
    _ bytes: UnsafeRawBufferPointer,
    deliver: (ReceivedMessage) throws(RPCError) -> Void
  ) throws(RPCError) {
    guard case .messages = state, hasHeaders else { return }
    try unsafe framer.receive(bytes) { (message: inout ReceivedMessage) throws(RPCError) in
      let whole = message
      message.bytes = ByteBuffer()
      try deliver(whole)
    }
  }

  /// The server sends no more on this stream.
  package mutating func finish() -> End {
    state = .ended
    guard var end else {
      return End(error: RPCError(.unknown, "the server ended the call without a status"))
    }
    if end.error == nil, !framer.isBetweenMessages {
      end.error = RPCError(.internal, "the server ended the call within a message")
    }
    return end
  }

  private func makeEnd(_ head: ResponseHead) -> End {
    guard let code = head.status, code != .ok else { return End(error: nil) }
    var error = RPCError(code, head.message)
    if let bytes = head.details, let details = decodeDetails(bytes) { error.details = details }
    error.metadata = Metadata(head.fields)
    return End(error: error, pushback: head.pushback)
  }
}
