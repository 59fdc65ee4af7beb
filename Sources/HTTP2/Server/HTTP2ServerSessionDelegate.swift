/// What happens on a server's session as a whole. Called on its event loop.
package protocol HTTP2ServerSessionDelegate: AnyObject {
  /// A header block that the session has not seen before, or not lately: the place to make something of it.
  func session(_ session: HTTP2ServerSession, received block: HTTP2RequestBlock)

  /// A short request is whole, and its block allows an answer within this call.
  ///
  /// True when `answer` was called for the stream, or `adopt` and a handler's answer; false to have the stream opened
  /// like any other, with nothing done yet.
  func session(
    _ session: HTTP2ServerSession,
    answersDirectly stream: HTTP2Stream,
    _ block: HTTP2RequestBlock,
    _ body: UnsafeRawBufferPointer
  ) -> Bool

  /// The peer opened a stream: who handles it?
  func session(_ session: HTTP2ServerSession, opened stream: HTTP2Stream, _ block: HTTP2RequestBlock)
    -> any HTTP2StreamHandler

  /// The peer's SETTINGS arrived (`acknowledged` false), or its acknowledgement of ours.
  func session(_ session: HTTP2ServerSession, receivedSettings acknowledged: Bool)

  /// A PING (`acknowledged` false; the answer is sent by itself), or the answer to ours.
  func session(_ session: HTTP2ServerSession, receivedPing payload: UInt64, acknowledged: Bool)
}
