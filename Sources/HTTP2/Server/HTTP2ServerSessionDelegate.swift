/// What happens on a server's session as a whole. Called on its event loop.
package protocol HTTP2ServerSessionDelegate: AnyObject {
  /// Whether the session may go on with what it was given, asked every few frames. False makes `receive` return, with
  /// the rest `untaken`.
  func sessionMayGoOn(_ session: HTTP2ServerSession) -> Bool

  /// The peer cancels more calls than it lets be answered: it had better be slower.
  func sessionIsOverrun(_ session: HTTP2ServerSession)

  /// The peer has reset a stream whose work it has not waited for, or had it reset by a mistake. True: that counts elsewhere, and
  /// not for the connection.
  /// Asked only where ``Limits/isShared``.
  func session(_ session: HTTP2ServerSession, countsReset stream: HTTP2Stream) -> Bool

  /// A header block that the session has not seen before, or not lately: the place to make something of it.
  func session(_ session: HTTP2ServerSession, received block: HTTP2RequestBlock)

  /// A short request is whole, and its block allows an answer within this call, or it came too late by
  /// ``HTTP2RequestBlock/patience``.
  ///
  /// True when `answer` or `turnAway` was called for the stream, or `adopt` and a handler's answer; false to have the
  /// stream opened like any other, with nothing done yet.
  func session(
    _ session: HTTP2ServerSession,
    answersDirectly stream: HTTP2Stream,
    _ block: HTTP2RequestBlock,
    _ body: UnsafeRawBufferPointer
  ) -> Bool

  /// Whether requests with the block, which has ``HTTP2RequestBlock/patience``, had better be turned away however early
  /// they come, since what they need has too much to do.
  func session(_ session: HTTP2ServerSession, isShut block: HTTP2RequestBlock) -> Bool

  /// A request came too late by ``HTTP2RequestBlock/patience``, and is longer than a frame. True when `turnAway` was
  /// called for the stream; false to have it opened like any other.
  func session(_ session: HTTP2ServerSession, refuses stream: HTTP2Stream, _ block: HTTP2RequestBlock) -> Bool

  /// `body`, the last frame of a request, comes later among the bytes that are being received, after a request that was
  /// answered directly. Whose request it is, and whether it is one, will show when its turn comes; until then the
  /// delegate may do no more than fetch what it is likely to need. False: say no more of what comes.
  func session(_ session: HTTP2ServerSession, foresees body: UnsafeRawBufferPointer) -> Bool

  /// The peer opened a stream: who handles it?
  func session(_ session: HTTP2ServerSession, opened stream: HTTP2Stream, _ block: HTTP2RequestBlock)
    -> any HTTP2StreamHandler

  /// The peer's SETTINGS arrived (`acknowledged` false), or its acknowledgement of ours.
  func session(_ session: HTTP2ServerSession, receivedSettings acknowledged: Bool)

  /// A PING (`acknowledged` false; the answer is sent by itself), or the answer to ours.
  func session(_ session: HTTP2ServerSession, receivedPing payload: UInt64, acknowledged: Bool)
}

extension HTTP2ServerSessionDelegate {
  package func sessionMayGoOn(_ session: HTTP2ServerSession) -> Bool { true }

  package func sessionIsOverrun(_ session: HTTP2ServerSession) {}

  package func session(_ session: HTTP2ServerSession, countsReset stream: HTTP2Stream) -> Bool { false }

  package func session(_ session: HTTP2ServerSession, isShut block: HTTP2RequestBlock) -> Bool { false }

  package func session(
    _ session: HTTP2ServerSession, refuses stream: HTTP2Stream, _ block: HTTP2RequestBlock
  ) -> Bool { false }

  package func session(_ session: HTTP2ServerSession, foresees body: UnsafeRawBufferPointer) -> Bool { false }
}
