/// What happens on one stream. Called by the session, on its event loop, while it reads or writes.
///
/// The pointers are valid during the call only. A handler may answer, write and reset from within any of these.
package protocol HTTP2StreamHandler: AnyObject {
  /// One field of the header block or of the trailers, of a response. False resets the stream.
  func stream(_ stream: HTTP2Stream, receivedField name: UnsafeRawBufferPointer, _ value: UnsafeRawBufferPointer)
    -> Bool

  /// The fields of a block are complete.
  func stream(_ stream: HTTP2Stream, completedFields block: HTTP2FieldBlock)

  /// Bytes of the body. They count against the stream's window until the session's `consume`.
  func stream(_ stream: HTTP2Stream, receivedData bytes: UnsafeRawBufferPointer)

  /// The peer will send no more on this stream.
  func streamReceivedEnd(_ stream: HTTP2Stream)

  /// Bytes of the body left the stream's queue for the connection's output.
  func stream(_ stream: HTTP2Stream, wrote bytes: Int)

  /// The stream is gone. The session reuses the object: let go of it.
  func stream(_ stream: HTTP2Stream, closed code: HTTP2ErrorCode)
}

extension HTTP2StreamHandler {
  /// A server gets the fields of a request with the stream.
  package func stream(
    _ stream: HTTP2Stream,
    receivedField name: UnsafeRawBufferPointer,
    _ value: UnsafeRawBufferPointer
  ) -> Bool { true }
}

/// Which header block of a stream.
package enum HTTP2FieldBlock: Sendable {
  /// The request or the final response.
  case initial
  /// An informational response (1xx), to a client.
  case informational
  case trailers
}
