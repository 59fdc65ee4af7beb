import HTTP2

/// Sees to it that a session's events make sense: one block of fields before data, nothing after the end, one end.
final class CheckedHandler: HTTP2StreamHandler {
  /// What a handler does from within an event.
  struct Actions {
    var consume: (HTTP2Stream, Int) -> Void
    var reset: (HTTP2Stream) -> Void
    var answer: (HTTP2Stream) -> Void
  }

  private let actions: Actions
  /// On a server the session has the fields before it asks for a handler.
  private var hasFields: Bool
  private var hasEnded = false
  private(set) var isClosed = false

  init(hasFields: Bool, _ actions: Actions) {
    self.hasFields = hasFields
    self.actions = actions
  }

  func stream(
    _ stream: HTTP2Stream,
    receivedField name: UnsafeRawBufferPointer,
    _ value: UnsafeRawBufferPointer
  ) -> Bool {
    precondition(!isClosed && !hasEnded, "a field after the end")
    precondition(name.count > 0, "a field without a name")
    return true
  }

  func stream(_ stream: HTTP2Stream, completedFields block: HTTP2FieldBlock) {
    precondition(!isClosed && !hasEnded, "a block after the end")
    precondition((block == .trailers) == hasFields, "a block out of its turn")
    if block != .informational { hasFields = true }
    // Each on some streams.
    switch stream.id % 8 {
    case 1: actions.answer(stream)
    case 5: actions.reset(stream)
    default: break
    }
  }

  func stream(_ stream: HTTP2Stream, receivedData bytes: UnsafeRawBufferPointer) {
    precondition(!isClosed && !hasEnded && hasFields, "data out of its turn")
    switch stream.id % 8 {
    case 1: actions.answer(stream)
    case 5: actions.reset(stream)
    case 7: break
    default: actions.consume(stream, bytes.count)
    }
  }

  func streamReceivedEnd(_ stream: HTTP2Stream) {
    precondition(!isClosed && !hasEnded && hasFields, "an end out of its turn")
    hasEnded = true
    if stream.id % 8 == 3 { actions.answer(stream) }
  }

  func stream(_ stream: HTTP2Stream, wrote bytes: Int) {
    precondition(!isClosed, "a write after the end")
  }

  func stream(_ stream: HTTP2Stream, closed code: HTTP2ErrorCode) {
    precondition(!isClosed, "a stream closed twice")
    isClosed = true
  }
}
