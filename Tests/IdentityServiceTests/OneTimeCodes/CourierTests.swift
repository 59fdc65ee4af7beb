import GRPC
import LatchkeyModel
import LatchkeyProtos
import Testing

@testable import IdentityService

@Suite("The courier of one-time codes")
struct CourierTests {
  private func with(_ body: (IdentityHarness, Postbox) async throws -> Void) async throws {
    let box = Postbox()
    let harness = try await IdentityHarness(codeSink: box)
    let courier = Task { await harness.core.courier.run() }
    defer { courier.cancel() }
    try await body(harness, box)
  }

  private func send(_ harness: IdentityHarness, _ identifier: String, from address: String) async throws {
    _ = try await harness.auth(from: address).sendOtp(
      IdentityV1.SendOtpRequest(clientID: "app.test", identifier: identifier, purpose: .proveAddress))
  }

  @Test("R50: a recipient that nothing reaches stops nobody else's codes", .timeLimit(.minutes(1)))
  func undeliverable() async throws {
    try await with { harness, box in
      box.refuse("nobody@example.com")
      for round in 1...3 {
        try await send(harness, "nobody@example.com", from: "198.51.100.1")
        try await eventually { box.refusals == round }
        // One after it in the queue, so that what came of the refusal is done.
        try await send(harness, "next\(round)@example.com", from: "198.51.100.1")
        try await eventually { box.recipients.last == "next\(round)@example.com" }
        try await send(harness, "ada\(round)@example.com", from: "192.0.2.7")
        try await eventually { box.recipients.last == "ada\(round)@example.com" }
        harness.clock.advance(by: .seconds(61))
      }
    }
  }

  @Test("R50: messages that take long hold up their own source, not another's", .timeLimit(.minutes(1)))
  func slow() async throws {
    try await with { harness, box in
      let slow = (0..<20).map { "slow\($0)@example.com" }
      box.hold(slow)
      for recipient in slow { try await send(harness, recipient, from: "198.51.100.1") }
      try await send(harness, "ada@example.com", from: "192.0.2.7")
      try await eventually { box.recipients == ["ada@example.com"] }
      box.letGo()
      try await eventually { box.recipients.count == 21 }
    }
  }

  @Test("R50: one source's full queue is no reason to refuse another's message", .timeLimit(.minutes(1)))
  func full() async throws {
    try await with { harness, box in
      let slow = (0..<Limits.codesWaiting + 20).map { "slow\($0)@example.com" }
      box.hold(slow)
      for recipient in slow { try? await send(harness, recipient, from: "198.51.100.1") }
      try await send(harness, "ada@example.com", from: "192.0.2.7")
      try await eventually { box.recipients == ["ada@example.com"] }
    }
  }
}
