import Callers
import LatchkeyModel
import Logging
import Storage
import Synchronization

/// Hands codes to the sink, apart from the calls that asked for them: how long an answer takes tells nobody whether
/// there was a message to send (R25).
///
/// While a channel as a whole is out of reach, its codes are withdrawn: another may be asked for at once, and none of the
/// hour's is used up. What fails for one recipient says nothing of the others, and is told to nobody: codes are sent to
/// known addresses only, so that it would tell which those are.
package final class CodeCourier: Sendable {
  private let sink: any CodeSink
  private let clock: any WallClock
  private let logger: Logger
  private let withdraw: @Sendable (OneTimeCode) async -> Void
  private let queue = Mutex(CourierQueue<Parcel>())
  private let wakes: AsyncStream<Void>
  private let wake: AsyncStream<Void>.Continuation
  private let failedAt = Mutex<[AccountIdentifier.Kind: Timestamp]>([:])

  /// A code, on its way if there is a message: an identifier without an account takes its place like any other.
  private struct Parcel: Sendable {
    let kind: AccountIdentifier.Kind
    let code: OneTimeCode
    let message: CodeMessage?
  }

  /// - Parameter withdraw: voids a code that did not arrive.
  package init(
    _ sink: any CodeSink, clock: any WallClock, logger: Logger,
    withdraw: @escaping @Sendable (OneTimeCode) async -> Void
  ) {
    self.sink = sink
    self.clock = clock
    self.logger = logger
    self.withdraw = withdraw
    (wakes, wake) = AsyncStream.makeStream(bufferingPolicy: .bufferingNewest(1))
  }

  /// Whether deliveries to such identifiers fail just now. The same for everybody, so it says nothing about an account.
  package func isFailing(_ kind: AccountIdentifier.Kind) -> Bool {
    guard let last = failedAt.withLock({ $0[kind] }) else { return false }
    let now = clock.now()
    return now < last + Limits.codeSinkRest && now >= last
  }

  /// False when too many wait.
  ///
  /// - Parameters:
  ///   - message: nil for an identifier that nothing is sent to.
  ///   - source: the network that asked for it.
  package func take(
    _ message: CodeMessage?, _ code: OneTimeCode, to kind: AccountIdentifier.Kind, from source: String
  ) -> Bool {
    let parcel = Parcel(kind: kind, code: code, message: message)
    if case .refused = queue.withLock({ $0.put(parcel, of: source) }) { return false }
    wake.yield()
    return true
  }

  /// Delivers until the task is cancelled, a few at a time, fewer of one source. What waits then is withdrawn, whether there is
  /// somebody to send it to or not (R25), as far as there is time: who asked for it may ask again at once, here or at another instance.
  package func run() async {
    await withDiscardingTaskGroup { group in
      for await _ in wakes {
        while !Task.isCancelled, let (parcel, source) = queue.withLock({ $0.next() }) {
          group.addTask {
            await self.deliver(parcel)
            self.queue.withLock { $0.done(source) }
            self.wake.yield()
          }
        }
      }
    }
    // Storage does nothing for who was cancelled.
    let end = ContinuousClock.now + Limits.lastWithdrawals
    await Task { [self] in
      while ContinuousClock.now < end, let (parcel, source) = queue.withLock({ $0.next() }) {
        await CallDeadline.$current.withValue(end) { await withdraw(parcel.code) }
        queue.withLock { $0.done(source) }
      }
    }.value
  }

  private func deliver(_ parcel: Parcel) async {
    guard let message = parcel.message else {
      // What becomes of the others' codes becomes of this one (R25).
      if isFailing(parcel.kind) { await withdraw(parcel.code) }
      return
    }
    do throws(CodeDeliveryError) {
      try await sink.deliver(message)
      failedAt.withLock { $0[parcel.kind] = nil }
    } catch {
      if error.isChannelWide {
        failedAt.withLock { $0[parcel.kind] = clock.now() }
        await withdraw(parcel.code)
      }
      logger.error("a code was not delivered", metadata: ["to": "\(message.identifier.mask)", "cause": "\(error)"])
    }
  }
}
