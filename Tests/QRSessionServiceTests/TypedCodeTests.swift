import GRPC
import LatchkeyModel
import LatchkeyProtos
import ServiceRuntime
import Testing

@testable import QRSessionService

/// Codes that a person types have 34 bits: what keeps them from being guessed, and honest people from paying for it.
@Suite struct TypedCodeTests {
  /// The refusal of a typed code; nil when it was taken.
  private func type(
    _ code: String, as account: String, from address: String = "203.0.113.9", in harness: Harness
  ) async -> RPCError? {
    await refusal {
      _ = try await harness.api.scanSession(
        QRV1.ScanSessionRequest(code: .userCode(code)), context: .phone(account, address: address))
    }
  }

  @Test("S26: while identity is away no try is spent, on right codes or wrong ones")
  func outageSpendsNoTries() async throws {
    let harness = try Harness()
    let issued = try await harness.issue()
    harness.grants.state.withLock { $0.maskFailure = RPCError(.unavailable, "identity is away") }
    for number in 0..<40 {
      let code = number.isMultiple(of: 2) ? issued.userCode : "BCDF-GHJK"
      #expect(await type(code, as: "ada", in: harness)?.code == .unavailable)
    }
    harness.grants.state.withLock { $0.maskFailure = nil }
    #expect(await type(issued.userCode, as: "ada", in: harness) == nil)
    for _ in 0..<5 { #expect(await type("BCDF-GHJK", as: "ada", in: harness) == .noSuchCode) }
    #expect(await type(issued.userCode, as: "ada", in: harness)?.code == .resourceExhausted)
  }

  @Test("S26: a code that could not be looked up spends no try")
  func failedLookUpSpendsNoTry() async throws {
    let harness = try Harness()
    let issued = try await harness.issue()
    // Identity is asked first: from here on the phone is known.
    #expect(await type(issued.userCode, as: "ada", in: harness) == nil)
    await harness.database.close()
    for _ in 0..<8 { #expect(await type(issued.userCode, as: "ada", in: harness)?.code == .unavailable) }
    for _ in 0..<31 { #expect(await refusal { _ = try await harness.scan(issued) }?.code == .unavailable) }
  }
}
