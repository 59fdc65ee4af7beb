import GRPC
import LatchkeyModel
import LatchkeyProtos
import NIOCore
import Testing

@testable import QRSessionService

@Suite struct WatchTests {
  /// A watch that runs beside the test, and what it has sent.
  private struct Watch {
    let task: Task<RPCError?, Never>
    let outbox: MessageOutbox

    init(_ harness: Harness, _ deviceCode: String, verifier: String = "", deadline: ContinuousClock.Instant? = nil) {
      let outbox = MessageOutbox(ready: {})
      self.outbox = outbox
      task = Task {
        await refusal {
          try await harness.api.watchSession(
            QRV1.WatchSessionRequest(deviceCode: deviceCode, codeVerifier: verifier),
            responses: ResponseWriter(outbox),
            context: .screen(deadline: deadline)
          )
        }
      }
    }

    /// What was sent since the last look. A frame is one byte of flags, four of length, and the message.
    func sent() throws -> [QRV1.WatchSessionResponse] {
      try outbox.take().map { frame in
        let message = frame.getSlice(at: frame.readerIndex + 5, length: frame.readableBytes - 5) ?? ByteBuffer()
        // The message is decoded, and copied, within the closure.
        return try unsafe message.withUnsafeReadableBytes { try unsafe QRV1.WatchSessionResponse(decoding: $0) }
      }
    }
  }

  @Test("Q7: a watch tells the state now, each change, and the tokens, and then ends", .timeLimit(.minutes(1)))
  func wholeFlow() async throws {
    let harness = try Harness()
    let issued = try await harness.issue()
    let watch = Watch(harness, issued.deviceCode, verifier: Harness.verifier)
    try await harness.someoneWaits()
    #expect(try watch.sent().map(\.state) == [.pending])
    let scanned = try await harness.scan(issued)
    try await harness.someoneWaits()
    #expect(try watch.sent().map(\.state) == [.scanned])
    try await harness.confirm(scanned)
    #expect(await watch.task.value == nil)
    let last = try watch.sent()
    #expect(last.map(\.state) == [.confirmed])
    #expect(last.first?.tokens?.accessToken == "token-1")
    #expect(harness.api.table.waiterCount == 0)
  }

  @Test("A watch without the verifier sees the hand-over to another and gets no tokens", .timeLimit(.minutes(1)))
  func onlooker() async throws {
    let harness = try Harness()
    let issued = try await harness.issue()
    let watch = Watch(harness, issued.deviceCode)
    try await harness.someoneWaits()
    try await harness.confirm(try await harness.scan(issued))
    _ = try await harness.poll(issued, verifier: Harness.verifier)
    #expect(await watch.task.value == nil)
    let sent = try watch.sent()
    #expect(sent.first?.state == .pending)
    #expect(sent.last?.state == .consumed)
    #expect(sent.allSatisfy { $0.tokens == nil })
    // Versions only grow, and no state comes twice.
    #expect(zip(sent, sent.dropFirst()).allSatisfy { $0.version < $1.version })
  }

  @Test("A watch ends with a refused, cancelled or expired code by a last message", .timeLimit(.minutes(1)))
  func endings() async throws {
    for ending in [QRV1.SessionState.denied, .cancelled, .expired] {
      let harness = try Harness()
      let issued = try await harness.issue()
      let scanned = try await harness.scan(issued)
      let watch = Watch(harness, issued.deviceCode, verifier: Harness.verifier)
      try await harness.someoneWaits()
      switch ending {
      case .denied:
        try await harness.deny(scanned)
      case .cancelled:
        _ = try await harness.api.cancelSession(
          QRV1.CancelSessionRequest(deviceCode: issued.deviceCode),
          context: .screen()
        )
      default:
        harness.clock.move(by: .seconds(122))
        harness.api.sweep(at: harness.clock.now())
      }
      #expect(await watch.task.value == nil)
      #expect(try watch.sent().map(\.state) == [.scanned, ending])
    }
  }

  @Test("R37: watches of one session are bounded: the oldest is ended", .timeLimit(.minutes(1)))
  func bounded() async throws {
    let harness = try Harness()
    let issued = try await harness.issue()
    let oldest = Watch(harness, issued.deviceCode)
    try await harness.someoneWaits()
    var watches: [Watch] = []
    for count in 1...Limits.waitersPerSession {
      watches.append(Watch(harness, issued.deviceCode))
      try await harness.someoneWaits(min(count + 1, Limits.waitersPerSession))
    }
    #expect(await oldest.task.value?.code == .aborted)
    for watch in watches { watch.task.cancel() }
    for watch in watches { #expect(await watch.task.value?.code == .cancelled) }
    #expect(harness.api.table.waiterCount == 0)
  }

  @Test(
    "A watch ends with UNAVAILABLE when the service stops, and says when to watch elsewhere", .timeLimit(.minutes(1)))
  func stopping() async throws {
    let harness = try Harness()
    let issued = try await harness.issue()
    let open = Watch(harness, issued.deviceCode)
    try await harness.someoneWaits()
    harness.api.stopWaiting()
    for watch in [open, Watch(harness, issued.deviceCode)] {
      let end = await watch.task.value
      let wait = try #require(end?.details.retryAfter)
      #expect(end?.code == .unavailable && wait >= .zero && wait <= .seconds(2))
      #expect(try watch.sent().map(\.state) == [.pending])
    }
  }

  @Test("R31: a watch with the code's content, or of nobody's code, is refused")
  func unknown() async throws {
    let harness = try Harness()
    let issued = try await harness.issue()
    for code in [issued.qrPayload, issued.userCode, String(repeating: "A", count: 43)] {
      #expect(await Watch(harness, code).task.value == .unknownDeviceCode)
    }
    #expect(await Watch(harness, "").task.value?.code == .invalidArgument)
  }

  @Test("A watch ends in time for its deadline", .timeLimit(.minutes(1)))
  func deadline() async throws {
    let harness = try Harness()
    let issued = try await harness.issue()
    let deadline = ContinuousClock.now + .seconds(50)
    let watch = Watch(harness, issued.deviceCode, deadline: deadline)
    try await harness.someoneWaits()
    harness.api.table.wakeTimedOut(at: deadline - .seconds(1))
    #expect(harness.api.table.waiterCount == 1)
    harness.api.table.wakeTimedOut(at: deadline)
    #expect(await watch.task.value == nil)
  }
}
