package import NIOCore

/// One stream of a session: its number, its handler and the output that waits for the windows.
///
/// Made and reused by a session; not to be used after its handler saw it closed.
package final class HTTP2Stream {
  /// Odd for those that clients open. 0 while the object waits for its next stream.
  package internal(set) var id: Int32 = 0
  /// Who hears of the stream's events; the session drops it when the stream closes.
  package var handler: (any HTTP2StreamHandler)?

  /// Bytes of the body that have not left yet.
  var pending = ByteBuffer()
  var trailers = HTTP2FieldList()
  var hasTrailers = false
  /// Nothing will be added to `pending`.
  var isFinished = false
  /// libnghttp2 waits for `nghttp2_session_resume_data`.
  var isDeferred = false
  /// A header block of ours is on its way; a second one would be trailers.
  package internal(set) var hasAnswered = false
  /// The peer half-closed.
  package internal(set) var isRemoteEnded = false
  /// We half-closed.
  package internal(set) var isLocalEnded = false
  /// Bytes received and not yet consumed.
  var unconsumed = 0
  /// The request's or the final response's fields are complete; the next block is trailers.
  var hasFinalFields = false
  /// The response block that is being received is a 1xx.
  var isInformational = false

  // What a server's session keeps of it.

  /// When its header block was complete.
  package internal(set) var opened = NIODeadline.uptimeNanoseconds(0)

  /// The request's header block, until the stream has a handler.
  package internal(set) var block: HTTP2RequestBlock?
  /// No handler yet: the body may be answered directly.
  var isUndecided = false
  var isQueued = false
  /// In the list of those that wait for the connection's window.
  var isBlocked = false
  var hasCommonTrailers = false
  /// We reset it, with the next output.
  var resetCode: HTTP2ErrorCode?
  /// And not for a mistake of the peer's.
  var isShed = false
  /// Bytes that the peer takes of us.
  var sendWindow = 0
  /// Bytes of DATA received since they were last granted again, and those of them that were consumed.
  var outstanding = 0
  var consumed = 0
  /// Bytes of our body that have left, and what these and those of the session were when progress was last seen.
  var sent = 0
  var seen = (stream: 0, session: 0)
  /// Looks at the stream, blocked, since there was progress.
  var looks = 0
  /// Bytes of the body, as they came and as they were announced.
  var received = 0
  var contentLength: Int?
  /// DATA frames that carried nothing.
  var emptyFrames = 0

  /// The next one in the session's pool, while this one waits there.
  var nextFree: HTTP2Stream?

  init() {}

  /// Bytes of the body that wait for the windows or for the socket.
  package var pendingBytes: Int { pending.readableBytes }

  /// Lets go of what was pending. A large buffer may be one that many streams share: to clear that would make another.
  func forgetPending() {
    if pending.capacity > Limits.keptStreamCapacity { pending = ByteBuffer() } else { pending.clear() }
  }

  func reset() {
    id = 0
    if handler != nil { handler = nil }
    forgetPending()
    if hasTrailers {
      trailers.removeAll()
      hasTrailers = false
    }
    isFinished = false
    isDeferred = false
    hasAnswered = false
    isRemoteEnded = false
    isLocalEnded = false
    unconsumed = 0
    hasFinalFields = false
    isInformational = false
    if block != nil { block = nil }
    isUndecided = false
    isQueued = false
    isBlocked = false
    hasCommonTrailers = false
    resetCode = nil
    isShed = false
    outstanding = 0
    consumed = 0
    sent = 0
    seen = (0, 0)
    looks = 0
    received = 0
    emptyFrames = 0
    contentLength = nil
  }
}
