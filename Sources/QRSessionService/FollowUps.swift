import LatchkeyModel
import Synchronization

/// Work that a call leaves to be done after its answer, so that the answer's time does not tell of it (S24). What comes
/// together is done together, so that it is stored by few commits (S30). Notes on disk bring it to the next process when
/// this one dies before.
///
///     handle ──▶ waiting ──take──▶ under way ──done──▶ (forgotten)
///                   ▲                  └── failed ──┐
///                   └───────────────────────────────┘
final class FollowUps: Sendable {
  /// A claimed code that another account submitted (S6).
  struct PassedAround: Sendable {
    let session: QRSession
    let subject: SubjectID
    let address: String
  }

  /// One element, at most, since something came.
  let arrivals: AsyncStream<Void>

  private let codes = Mutex<[PassedAround]>([])
  private let notes: FollowUpNotes?
  private let arrived: AsyncStream<Void>.Continuation

  /// - Parameter notes: nil where what waits may be lost with the process.
  init(notes: FollowUpNotes? = nil) {
    self.notes = notes
    (arrivals, arrived) = AsyncStream.makeStream(bufferingPolicy: .bufferingNewest(1))
  }

  /// The sessions that an earlier process noted and may not have come to.
  var left: [QRSessionID] { notes?.left ?? [] }

  /// Past a bound further ones are dropped: accounts scan only so often, so this is more than a second's worth.
  func handle(_ code: PassedAround) {
    codes.withLock { codes in
      guard codes.count < Limits.followUps else { return }
      codes.append(code)
      notes?.add(code.session.id)
    }
    arrived.yield()
  }

  /// What came since this was asked last. ``done(failed:)`` when it is over.
  func take() -> [PassedAround] {
    codes.withLock { codes in
      defer { codes = [] }
      return codes
    }
  }

  /// What was taken is stored, but for these: they wait again.
  func done(failed: [PassedAround] = []) {
    codes.withLock { codes in
      codes = Array((failed + codes).prefix(Limits.followUps))
      // While something waits the notes stay as they are: what is noted twice is cancelled once.
      if codes.isEmpty { notes?.clear() }
    }
  }
}
