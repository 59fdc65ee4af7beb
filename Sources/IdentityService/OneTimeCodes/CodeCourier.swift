import LatchkeyModel
import Logging
import Storage
import Synchronization

/// Hands codes to the sink, apart from the calls that asked for them: how long an answer takes tells nobody whether
/// there was a message to send (R25).
///
/// A code that could not be delivered is withdrawn: another may be asked for at once, and none of the hour's is used up.
package final class CodeCourier: Sendable {
  private let sink: any CodeSink
  private let clock: any WallClock
  private let logger: Logger
  private let withdraw: @Sendable (OneTimeCode) async -> Void
  private let queue: AsyncStream<Parcel>
  private let entrance: AsyncStream<Parcel>.Continuation
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
    (queue, entrance) = AsyncStream.makeStream(bufferingPolicy: .bufferingOldest(Limits.codesWaiting))
  }

  /// Whether deliveries to such identifiers fail just now. The same for everybody, so it says nothing about an account.
  package func isFailing(_ kind: AccountIdentifier.Kind) -> Bool {
    guard let last = failedAt.withLock({ $0[kind] }) else { return false }
    let now = clock.now()
    return now < last + Limits.codeSinkRest && now >= last
  }

  /// False when too many wait.
  ///
  /// - Parameter message: nil for an identifier that nothing is sent to.
  package func take(_ message: CodeMessage?, _ code: OneTimeCode, to kind: AccountIdentifier.Kind) -> Bool {
    if case .enqueued = entrance.yield(Parcel(kind: kind, code: code, message: message)) { true } else { false }
  }

  /// Delivers until the task is cancelled, a few at a time, so that one slow server holds up nobody else's code.
  package func run() async {
    await withTaskGroup(of: Void.self) { group in
      var running = 0
      for await parcel in queue {
        if running == Limits.codeDeliveries {
          await group.next()
          running -= 1
        }
        group.addTask { await self.deliver(parcel) }
        running += 1
      }
    }
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
      failedAt.withLock { $0[parcel.kind] = clock.now() }
      await withdraw(parcel.code)
      logger.error("a code was not delivered", metadata: ["to": "\(message.identifier.mask)", "cause": "\(error)"])
    }
  }
}
