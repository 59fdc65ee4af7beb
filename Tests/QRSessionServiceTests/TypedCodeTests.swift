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

  @Test("S26: a decision that could not be looked at is given back")
  func outageSpendsNoDecisions() async throws {
    let harness = try Harness { $0.decisionRate = Rate(5, per: .seconds(60)) }
    let scanned = try await harness.scan(try await harness.issue())
    await harness.database.close()
    for _ in 0..<20 {
      #expect(await refusal { try await harness.confirm(scanned) }?.code == .unavailable)
      #expect(await refusal { try await harness.deny(scanned) }?.code == .unavailable)
    }
  }

  /// Wrong codes that these accounts type from one source, five each, until the source is refused.
  private func spray(_ accounts: Range<Int>, from address: String, in harness: Harness) async -> Int {
    var wrong = 0
    for account in accounts {
      for _ in 0..<5 {
        let answer = await type("BCDF-GHJK", as: "thief \(account)", from: address, in: harness)
        if answer == .noSuchCode { wrong += 1 }
      }
    }
    return wrong
  }

  @Test("S27: however many accounts type from one source, it has twenty wrong codes in a code's life; others go on")
  func sourceLimit() async throws {
    let harness = try Harness()
    #expect(await spray(0..<30, from: "198.51.100.7", in: harness) == 20)
    let issued = try await harness.issue()
    let refused = await type(issued.userCode, as: "thief 99", from: "198.51.100.7", in: harness)
    #expect(refused?.code == .resourceExhausted)
    #expect(refused?.details.reason == "RATE_LIMITED")
    // Whoever types elsewhere is served, and whoever scans is served there as well.
    #expect(await type(issued.userCode, as: "ada", in: harness) == nil)
    let other = try await harness.issue()
    _ = try await harness.scan(other, as: .phone("bob", address: "198.51.100.7"))
    // A code's life later the source has its tries again.
    harness.clock.move(by: .seconds(120))
    #expect(await spray(100..<130, from: "198.51.100.7", in: harness) == 20)
  }

  @Test("S27: one IPv6 network of 64 bits is one source of typed codes")
  func sourceIsANetwork() async throws {
    let harness = try Harness()
    var wrong = 0
    for number in 0..<30 {
      wrong += await spray(number..<number + 1, from: "2001:db8:1:2::\(number)", in: harness)
    }
    #expect(wrong == 20)
  }

  @Test(
    "S27: after a few wrong codes from anywhere a typed code takes the screen's digits, and right ones do not count")
  func digitsAfterWrongCodes() async throws {
    let harness = try Harness()
    for _ in 0..<20 {
      let issued = try await harness.issue()
      #expect(await type(issued.userCode, as: "ada", in: harness) == nil)
    }
    #expect(await spray(0..<1, from: "198.51.100.7", in: harness) == 5)
    let issued = try await harness.issue()
    let scanned = try await harness.api.scanSession(
      QRV1.ScanSessionRequest(code: .userCode(issued.userCode)), context: .phone())
    #expect(scanned.needsCheckCode)
    let unread = await refusal { try await harness.confirm(scanned) }
    #expect(unread?.details.fieldViolations.first?.field == "check_code")
    try await harness.confirm(scanned, checkCode: issued.checkCode)
    // Who scans is not asked.
    let byCamera = try await harness.scan(try await harness.issue())
    #expect(!byCamera.needsCheckCode)
  }

  @Test("S27: who has to type the screen's digits has to when they type the code again, however long they wait")
  func digitsStay() async throws {
    let harness = try Harness()
    for _ in 0..<3 { #expect(await type("BCDF-GHJK", as: "thief", in: harness) == .noSuchCode) }
    harness.clock.move(by: .seconds(70))
    let issued = try await harness.issue()
    // A code may be typed without digits again 160 seconds after the wrong ones.
    for wait in [30, 61] {
      harness.clock.move(by: .seconds(wait))
      let scanned = try await harness.api.scanSession(
        QRV1.ScanSessionRequest(code: .userCode(issued.userCode)), context: .phone("thief"))
      #expect(scanned.needsCheckCode)
      let unread = await refusal { try await harness.confirm(scanned, as: .phone("thief")) }
      #expect(unread?.details.fieldViolations.first?.field == "check_code")
    }
  }

  @Test("S27: past the bound for all sources a typed code holds on its screen's own network only")
  func ownNetworkOnly() async throws {
    let harness = try Harness()
    var sprayed = 0
    for source in 0..<40 {
      let accounts = source * 10..<source * 10 + 10
      sprayed += await spray(accounts, from: "198.51.\(source).7", in: harness)
    }
    #expect(sprayed == 3 + 125)
    let issued = try await harness.issue(context: .screen(address: "203.0.113.7"))
    let away = await type(issued.userCode, as: "bob", from: "203.0.113.9", in: harness)
    #expect(away == (await type("ZZZZ-ZZZZ", as: "bob", from: "203.0.113.9", in: harness)))
    #expect(away?.code == .resourceExhausted)
    // At home, behind the same address, nobody is locked out.
    #expect(await type(issued.userCode, as: "ada", from: "203.0.113.7", in: harness) == nil)
  }

  @Test("S27, R27: what can be guessed of a typed code within its life is below 2^-32, for any number of accounts")
  func guessesWithinALife() async throws {
    let codes = (0..<UserCode.length).reduce(1.0) { product, _ in product * 20 }
    let digits = 100.0
    // A limiter gives its burst at once and earns it back within the same life.
    let unaided = Double(Limits.unaidedTypedCodes)
    let aided = 2 * Double(Limits.typedCodes + Limits.typedCodesPerSource)
    #expect((unaided + aided / digits) / codes < 1 / 4_294_967_296)
  }
}
