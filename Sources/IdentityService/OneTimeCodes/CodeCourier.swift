import LatchkeyModel
import Logging
import Synchronization

/// Hands codes to the sink one after the other, apart from the calls that asked for them: how long an answer takes
/// tells nobody whether there was a message to send (R25).
package final class CodeCourier: Sendable {
  private let sink: any CodeSink
  private let clock: any WallClock
  private let logger: Logger
  private let queue: AsyncStream<CodeMessage?>
  private let entrance: AsyncStream<CodeMessage?>.Continuation
  private let failedAt = Mutex<Timestamp?>(nil)

  package init(_ sink: any CodeSink, clock: any WallClock, logger: Logger) {
    self.sink = sink
    self.clock = clock
    self.logger = logger
    (queue, entrance) = AsyncStream.makeStream(bufferingPolicy: .bufferingOldest(Limits.codesWaiting))
  }

  /// Whether deliveries fail just now. The same for everybody, so it says nothing about an account.
  package var isFailing: Bool {
    guard let last = failedAt.withLock({ $0 }) else { return false }
    let now = clock.now()
    return now < last + Limits.codeSinkRest && now >= last
  }

  /// False when too many wait. Nil stands for an identifier without an account, and takes its place like any other.
  package func take(_ message: CodeMessage?) -> Bool {
    if case .enqueued = entrance.yield(message) { true } else { false }
  }

  /// Delivers until the task is cancelled.
  package func run() async {
    for await message in queue {
      guard let message else { continue }
      do throws(CodeDeliveryError) {
        try await sink.deliver(message)
        failedAt.withLock { $0 = nil }
      } catch {
        failedAt.withLock { $0 = clock.now() }
        logger.error(
          "a code was not delivered", metadata: ["to": "\(message.identifier.mask)", "cause": "\(error)"])
      }
    }
  }
}
