internal import NIOCore

/// What the session bears of a peer that does not take its answers, or does not wait for them.
extension HTTP2ServerSession {
  /// Whether bytes of answers wait, and for nothing but the peer's windows.
  package var hasBlockedStreams: Bool { queued > 0 && readyHead == ready.count && failure == nil }

  /// Looks at the streams that wait for a window, and resets those that were found so some times in a row without
  /// progress. The driver calls this at equal times, of which `Limits.looksAtBlocked` less one are the peer's time.
  ///
  /// What waits for the connection's window waits behind the other streams: there their progress counts as well.
  package func lookAtBlockedStreams() {
    for stream in table.all {
      guard stream.pending.readableBytes > 0, stream.hasAnswered, !stream.isQueued else {
        stream.looks = 0
        continue
      }
      let isBehindOthers = stream.sendWindow > 0
      let moved = isBehindOthers ? sent - stream.seen.session : stream.sent - stream.seen.stream
      if stream.looks == 0 || moved >= Limits.blockedProgress {
        stream.looks = 1
        stream.seen = (stream.sent, sent)
        continue
      }
      stream.looks += 1
      // gRPC's clients take the code for RESOURCE_EXHAUSTED.
      if stream.looks >= Limits.looksAtBlocked { reset(stream, .enhanceYourCalm) }
    }
  }

  /// Counts a reset of the peer's, if it is one of a request whose work it has not waited for. False: too many.
  func mayReset(_ stream: HTTP2Stream) -> Bool {
    // An answer that this read has begun is none that the peer has seen.
    // One that was answered directly, or turned away, was no more work than one that waits for its answer.
    let isAnswered = stream.hasAnswered && (stream.opened < now || stream.handler == nil)
    if isAnswered || now - stream.opened >= Limits.oldStream { return true }
    if limits.isShared, delegate?.session(self, countsReset: stream) == true { return true }
    if peerResets.spend(now: now) { return true }
    delegate?.sessionIsOverrun(self)
    return excessResets.spend(now: now)
  }

  /// A frame came that has something in it.
  func receivedWork(_ stream: HTTP2Stream) {
    idleFrames.earn()
    if stream.emptyFrames > 0 { stream.emptyFrames -= 1 }
  }

  /// A frame came that is no work: on a connection that many share its client's stream pays for it.
  func receivedNothing(_ stream: HTTP2Stream) {
    guard limits.isShared else { return spendIdle() }
    stream.emptyFrames += 1
    if stream.emptyFrames > limits.emptyFramesOfStream { reset(stream, .enhanceYourCalm) }
  }
}
