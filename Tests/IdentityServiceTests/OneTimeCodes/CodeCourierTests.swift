import LatchkeyModel
import Storage
import Synchronization
import TestSupport
import Testing

@testable import IdentityService

@Suite("The courier of one-time codes", .timeLimit(.minutes(1)))
struct CodeCourierTests {
  /// A gateway that takes nothing until whoever waits for it gives up.
  private final class SilentSink: CodeSink {
    let asked = Mutex(0)

    func deliver(_ message: CodeMessage) async throws(CodeDeliveryError) {
      asked.withLock { $0 += 1 }
      do { try await Task.sleep(for: .seconds(600)) } catch { throw CodeDeliveryError("nobody waits any more") }
    }

    func deliver(_ notice: OwnerNotice) async throws(CodeDeliveryError) {}
  }

  @Test("R25: codes that wait when the service stops are withdrawn, whether there is somebody to send them to or not")
  func stops() async throws {
    let sink = SilentSink()
    let withdrawn = Mutex<[OneTimeCode]>([])
    let clock = ManualClock(Timestamp(millisecondsSinceEpoch: 1_800_000_000_000))
    let courier = CodeCourier(sink, clock: clock, logger: IdentityHarness.logger) { code in
      // As the storage does for a caller who is gone.
      if !Task.isCancelled { withdrawn.withLock { $0.append(code) } }
    }
    let identifier = try #require(AccountIdentifier("ada@example.com"))
    let message = CodeMessage(
      identifier: identifier, code: RedactedSecret("123456"), locale: nil, lifetime: .seconds(300))
    let codes = (0..<20).map { OneTimeCode(identifierHash: [$0], codeHash: [$0], handleHash: [$0]) }
    for (number, code) in codes.enumerated() {
      let isKnown = number < Limits.codeDeliveriesPerSource || number % 2 == 0
      #expect(courier.take(isKnown ? message : nil, code, to: identifier.kind, from: "one network"))
    }
    let running = Task { await courier.run() }
    try await eventually { sink.asked.withLock { $0 } == Limits.codeDeliveriesPerSource }
    running.cancel()
    await running.value
    let expected = Array(codes.dropFirst(Limits.codeDeliveriesPerSource))
    #expect(withdrawn.withLock { $0 } == expected)
  }
}
