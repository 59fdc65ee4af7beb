import HTTP2

/// Sees to it that a session's events make sense: one block of fields before data, nothing after the end, one end.
final class CheckedHandler: HTTP2StreamHandler {
  private let session: HTTP2Session
  private var hasFields = false
  private var hasEnded = false
  private(set) var isClosed = false

  init(_ session: HTTP2Session) {
    self.session = session
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
    // What a handler may do from within an event, each way on some streams.
    switch stream.id % 8 {
    case 1: answer(stream)
    case 5: session.reset(stream, .refusedStream)
    default: break
    }
  }

  func stream(_ stream: HTTP2Stream, receivedData bytes: UnsafeRawBufferPointer) {
    precondition(!isClosed && !hasEnded && hasFields, "data out of its turn")
    if stream.id % 8 != 7 { session.consume(stream, bytes.count) }
  }

  func streamReceivedEnd(_ stream: HTTP2Stream) {
    precondition(!isClosed && !hasEnded && hasFields, "an end out of its turn")
    hasEnded = true
    if stream.id % 8 == 3 { answer(stream) }
  }

  func stream(_ stream: HTTP2Stream, wrote bytes: Int) {
    precondition(!isClosed, "a write after the end")
  }

  func stream(_ stream: HTTP2Stream, closed code: HTTP2ErrorCode) {
    precondition(!isClosed, "a stream closed twice")
    isClosed = true
  }

  private func answer(_ stream: HTTP2Stream) {
    guard session.role == .server else { return }
    var fields = HTTP2FieldList()
    fields.add(":status", "200")
    session.respond(stream, fields)
    session.write(stream) { $0.writeRepeatingByte(7, count: 5000) }
    var trailers = HTTP2FieldList()
    trailers.add("grpc-status", "0")
    session.finish(stream, trailers: trailers)
  }
}
