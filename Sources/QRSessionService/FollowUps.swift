import LatchkeyModel

/// Work that a call leaves to be done after its answer, so that the answer's time does not tell of it (S24).
final class FollowUps: Sendable {
  /// A claimed code that another account submitted (S6).
  struct PassedAround: Sendable {
    let session: QRSession
    let subject: SubjectID
    let address: String
  }

  let codes: AsyncStream<PassedAround>
  private let continuation: AsyncStream<PassedAround>.Continuation

  init() {
    // Past this many further ones are dropped: accounts scan only so often, so this is more than a second's worth.
    (codes, continuation) = AsyncStream.makeStream(bufferingPolicy: .bufferingOldest(Limits.followUps))
  }

  func handle(_ code: PassedAround) {
    continuation.yield(code)
  }
}
