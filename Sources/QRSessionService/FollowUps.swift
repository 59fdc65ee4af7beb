import LatchkeyModel

/// Work that a call leaves to be done after its answer, so that the answer's time does not tell of it (S24).
final class FollowUps: Sendable {
  let sessions: AsyncStream<QRSessionID>
  private let continuation: AsyncStream<QRSessionID>.Continuation

  init() {
    // Past this many the newest are dropped: an anomaly on that scale is in the audit log a thousand times already.
    (sessions, continuation) = AsyncStream.makeStream(bufferingPolicy: .bufferingOldest(1000))
  }

  /// Cancels the session, which two accounts submitted (S6).
  func cancel(_ session: QRSessionID) {
    continuation.yield(session)
  }

  func finish() {
    continuation.finish()
  }
}
