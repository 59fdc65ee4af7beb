import LatchkeyModel
import Synchronization

/// Lets one redeeming poll of a session through at a time, and remembers what it got for as long as the same poll may
/// be repeated (S5): a hundred pollers of one confirmed code make one grant.
final class RedeemGate: Sendable {
  private struct Answer {
    let grant: RedeemedGrant
    let verifier: Digest256
    let until: Timestamp
  }

  private struct Reuse {
    let verifier: Digest256
    var clock = PollClock()
  }

  private struct Guessed {
    let challenge: PKCEChallenge
    var count = 1
    var clock = PollClock()
  }

  private struct Waiter {
    let number: UInt64
    let continuation: CheckedContinuation<Bool, Never>
  }

  private struct State {
    /// Sessions with a redeeming poll inside, and who waits outside, first come first.
    var waiting: [QRSessionID: [Waiter]] = [:]
    var answers: [QRSessionID: Answer] = [:]
    /// Codes that were used again, whose grants have ended.
    var reused: [QRSessionID: Reuse] = [:]
    /// Codes that were polled with a verifier which is not theirs.
    var guessed: [QRSessionID: Guessed] = [:]
    var nextNumber: UInt64 = 0
    var lastTurn: Int64 = 0
  }

  private let state = Mutex(State())

  /// Runs `body` while no other body of the same session runs. Nil when the calling task was cancelled while it waited.
  func alone<Value: Sendable>(
    in session: QRSessionID,
    _ body: () async -> Value
  ) async -> Value? {
    guard await enter(session) else { return nil }
    let value = await body()
    leave(session)
    return value
  }

  /// A number for one try to hand a code over, higher than those before it; by the clock, so that it is so after a restart
  /// as well.
  func nextTurn(at now: Timestamp) -> Int64 {
    state.withLock { state in
      state.lastTurn = max(state.lastTurn + 1, now.millisecondsSinceEpoch)
      return state.lastTurn
    }
  }

  /// What this session's redeeming poll got, for the same verifier only.
  func answer(of session: QRSessionID, for verifier: Digest256, at now: Timestamp) -> RedeemedGrant? {
    state.withLock { state in
      guard let answer = state.answers[session], answer.verifier == verifier, now <= answer.until else { return nil }
      return answer.grant
    }
  }

  func remember(_ grant: RedeemedGrant, of session: QRSessionID, for verifier: Digest256, until: Timestamp) {
    state.withLock { $0.answers[session] = Answer(grant: grant, verifier: verifier, until: until) }
  }

  /// What the code issued has ended because it was used again by this verifier.
  func noteReuse(of session: QRSessionID, by verifier: Digest256, base: Duration, at now: Timestamp) {
    state.withLock { state in
      // Forgetting them costs each one look-up and one call.
      if state.reused.count >= Limits.rememberedReuses { state.reused = [:] }
      var reuse = Reuse(verifier: verifier)
      _ = reuse.clock.poll(at: now, base: base)
      state.reused[session] = reuse
    }
  }

  /// Somebody polled the code with a verifier that does not meet its challenge.
  func noteGuess(of session: QRSessionID, _ challenge: PKCEChallenge) {
    state.withLock { state in
      guard state.guessed[session] == nil else { return }
      if state.guessed.count >= Limits.rememberedReuses { state.guessed = [:] }
      state.guessed[session] = Guessed(challenge: challenge)
    }
  }

  /// Nil for a verifier that is the code's, and for the first few that are not; otherwise whether the code is guessed at
  /// too fast. Whoever has the right verifier is never slowed by others' wrong ones.
  func pollGuessed(
    _ session: QRSessionID, by verifier: Digest256, base: Duration, at now: Timestamp
  ) -> PollClock.Decision? {
    state.withLock { state in
      guard let guessed = state.guessed[session], !guessed.challenge.isMet(by: verifier) else { return nil }
      // A client that mixed up its codes is told what is wrong, not only that it asks too often.
      if guessed.count < Limits.freeGuesses {
        state.guessed[session]?.count += 1
        return nil
      }
      return state.guessed[session]?.clock.poll(at: now, base: base)
    }
  }

  /// Nil unless what the code issued has ended because this verifier used it again; otherwise whether it is polled too
  /// fast.
  func pollReused(
    _ session: QRSessionID, by verifier: Digest256, base: Duration, at now: Timestamp
  ) -> PollClock.Decision? {
    state.withLock { state in
      guard state.reused[session]?.verifier == verifier else { return nil }
      return state.reused[session]?.clock.poll(at: now, base: base)
    }
  }

  func forget(_ session: QRSessionID) {
    state.withLock { $0.answers[session] = nil }
  }

  /// Drops the answers whose time is over.
  func sweep(at now: Timestamp) {
    state.withLock { state in
      // A clock set back keeps none longer than twice its window.
      state.answers = state.answers.filter { now <= $0.value.until && $0.value.until - now <= QRLimits.repeatWindow }
    }
  }

  private func enter(_ session: QRSessionID) async -> Bool {
    let number: UInt64? = state.withLock { state in
      guard state.waiting[session] != nil else {
        state.waiting[session] = []
        return nil
      }
      state.nextNumber += 1
      return state.nextNumber
    }
    guard let number else { return true }
    return await withTaskCancellationHandler {
      await withCheckedContinuation { continuation in
        let entered: Bool? = state.withLock { state in
          // The one inside may have left in between.
          guard state.waiting[session] != nil else {
            state.waiting[session] = []
            return true
          }
          guard !Task.isCancelled else { return false }
          state.waiting[session]?.append(Waiter(number: number, continuation: continuation))
          return nil
        }
        if let entered { continuation.resume(returning: entered) }
      }
    } onCancel: {
      let waiter = state.withLock { state -> Waiter? in
        guard let position = state.waiting[session]?.firstIndex(where: { $0.number == number }) else { return nil }
        return state.waiting[session]?.remove(at: position)
      }
      waiter?.continuation.resume(returning: false)
    }
  }

  private func leave(_ session: QRSessionID) {
    let next = state.withLock { state -> Waiter? in
      guard state.waiting[session]?.isEmpty == false else {
        state.waiting[session] = nil
        return nil
      }
      return state.waiting[session]?.removeFirst()
    }
    next?.continuation.resume(returning: true)
  }
}
