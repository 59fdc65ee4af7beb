import Cryptography
import GRPC
import JSON
import LatchkeyModel
import LatchkeyProtos
import Storage
import StorageSQLite
import TestSupport
import Testing

@testable import IdentityService

@Suite("One-time codes")
struct OneTimeCodeTests {
  /// A service with an account, and its courier at work.
  private func with(
    codesPerHour: Int = 1_000_000,
    _ body: (IdentityHarness, Postbox) async throws -> Void
  ) async throws {
    let box = Postbox()
    let harness = try await IdentityHarness(codesPerHour: codesPerHour, codeSink: box)
    _ = try await harness.register("ada@example.com")
    try await harness.proveAddresses()
    let courier = Task { await harness.core.courier.run() }
    defer { courier.cancel() }
    try await body(harness, box)
  }

  private func send(
    _ harness: IdentityHarness, _ identifier: String = "ada@example.com", challenge: String = "",
    solution: [UInt8] = []
  ) async throws -> IdentityV1.SendOtpResponse {
    try await harness.auth.sendOtp(
      IdentityV1.SendOtpRequest(
        clientID: "app.test", identifier: identifier, challenge: challenge, powSolution: solution))
  }

  private func signIn(
    _ harness: IdentityHarness, _ code: String, _ identifier: String = "ada@example.com"
  ) async throws -> IdentityV1.AuthenticateResponse {
    try await harness.auth.authenticate(
      IdentityV1.AuthenticateRequest(
        clientID: "app.test", method: .otp(IdentityV1.OtpCredential(identifier: identifier, code: code))))
  }

  /// A code that is not this one.
  private func other(than code: String) -> String { code == "000000" ? "000001" : "000000" }

  @Test("G20: an account signs in by the code that was sent to its address, exactly once", .timeLimit(.minutes(1)))
  func signsIn() async throws {
    try await with { harness, box in
      let sent = try await send(harness)
      #expect(sent.expiresIn == 300)
      #expect(sent.resendAfter == 60)
      #expect(sent.attemptsLeft == 5)
      let code = try await box.code()
      let answer = try await signIn(harness, code, "Ada@Example.com")
      #expect(try await harness.isActive(answer.tokens.orThrow().accessToken))
      await expectRefusal(.unauthenticated, "CODE_VOID") { try await signIn(harness, code) }
    }
  }

  @Test("G24: of many sign-ins with one code at the same time, one succeeds", .timeLimit(.minutes(1)))
  func once() async throws {
    try await with { harness, box in
      _ = try await send(harness)
      let code = try await box.code()
      let signedIn = await withTaskGroup(of: Bool.self) { group in
        for _ in 0..<9 { group.addTask { (try? await signIn(harness, code)) != nil } }
        return await group.reduce(0) { $0 + ($1 ? 1 : 0) }
      }
      #expect(signedIn == 1)
    }
  }

  @Test("G23: another code is sent after a minute, five in an hour, and the wait is told", .timeLimit(.minutes(1)))
  func resend() async throws {
    try await with { harness, box in
      _ = try await send(harness)
      harness.clock.advance(by: .seconds(20))
      let early = await expectRefusal(.resourceExhausted, "RESEND_TOO_SOON") { try await send(harness) }
      #expect(early?.details.retryAfter == .seconds(40))
      for _ in 2...5 {
        harness.clock.advance(by: .seconds(60))
        _ = try await send(harness)
      }
      harness.clock.advance(by: .seconds(60))
      let hour = await expectRefusal(.resourceExhausted, "RESEND_TOO_SOON") { try await send(harness) }
      #expect(hour?.details.retryAfter == .seconds(3600 - 320))
      harness.clock.advance(by: .seconds(3600 - 320))
      _ = try await send(harness)
      _ = try await box.code(6)
    }
  }

  @Test("G23: a newer code voids the one before, and a code expires", .timeLimit(.minutes(1)))
  func newest() async throws {
    try await with { harness, box in
      _ = try await send(harness)
      let first = try await box.code()
      harness.clock.advance(by: .seconds(60))
      _ = try await send(harness)
      let second = try await box.code(2)
      if first != second {
        await expectRefusal(.unauthenticated, "CODE_INVALID") { try await signIn(harness, first) }
      }
      harness.clock.advance(by: .seconds(300))
      await expectRefusal(.unauthenticated, "CODE_VOID") { try await signIn(harness, second) }
    }
  }

  @Test("G25: a wrong code is told from a wrong password, counts down, and after five the code is void")
  func wrong() async throws {
    try await with { harness, box in
      _ = try await send(harness)
      let code = try await box.code()
      for left in (0..<5).reversed() {
        let error = await expectRefusal(.unauthenticated, "CODE_INVALID") {
          try await signIn(harness, other(than: code))
        }
        #expect(error?.details.info == [RPCError.KeyValue("attempts_left", "\(left)")])
      }
      await expectRefusal(.unauthenticated, "CODE_VOID") { try await signIn(harness, code) }
      await expectRefusal(.unauthenticated, "INVALID_CREDENTIALS") {
        try await harness.signIn("ada@example.com", password: "wrong horse battery")
      }
    }
  }

  @Test("R24: new codes do not make endless tries: guesses over many codes are throttled", .timeLimit(.minutes(1)))
  func throttled() async throws {
    try await with { harness, box in
      var refused: RPCError?
      sending: for round in 1...4 {
        _ = try await send(harness)
        let code = try await box.code(round)
        for _ in 0..<5 {
          do {
            _ = try await signIn(harness, other(than: code))
          } catch let error as RPCError where error.details.reason == "TOO_MANY_ATTEMPTS" {
            refused = error
            break sending
          } catch {}
        }
        harness.clock.advance(by: .seconds(60))
      }
      #expect(refused?.details.retryAfter != nil)
    }
  }

  @Test("R24: a wrong code that cannot be noted down is a try like any other", .timeLimit(.minutes(1)))
  func notNoted() async throws {
    try await with { harness, box in
      _ = try await send(harness)
      let code = try await box.code()
      try await harness.database.write { db throws(StorageError) in
        _ = try db.execute(
          "CREATE TRIGGER no_room BEFORE INSERT ON one_time_codes BEGIN SELECT RAISE(ABORT, 'no room'); END")
      }
      for _ in 0..<10 { await expectRefusal(.internal) { try await signIn(harness, other(than: code)) } }
      for _ in 0..<10 {
        await expectRefusal(.resourceExhausted, "TOO_MANY_ATTEMPTS") {
          try await signIn(harness, other(than: code))
        }
      }
    }
  }

  @Test("R25: an address without an account is answered alike, is throttled alike, and is sent nothing")
  func unknown() async throws {
    try await with { harness, box in
      var known = try await send(harness)
      var unknown = try await send(harness, "eve@example.com")
      #expect(known.handle != unknown.handle && known.handle.count == unknown.handle.count)
      (known.handle, unknown.handle) = ("", "")
      #expect(known == unknown)
      await expectRefusal(.resourceExhausted, "RESEND_TOO_SOON") { try await send(harness, "eve@example.com") }
      let code = try await box.code()
      let one = await expectRefusal(.unauthenticated, "CODE_INVALID") {
        try await signIn(harness, other(than: code))
      }
      // One of the two is wrong, whatever the code is that nobody was sent.
      var answers: [RPCError?] = []
      for guess in ["000000", "000001"] {
        answers.append(
          await expectRefusal(.unauthenticated) { try await signIn(harness, guess, "eve@example.com") })
      }
      #expect(answers.contains(one))
      #expect(box.codes.count == 1)
    }
  }

  @Test("G25: while deliveries fail everybody is told so at once, and it passes", .timeLimit(.minutes(1)))
  func failing() async throws {
    try await with { harness, box in
      box.breakDown(true)
      _ = try await send(harness)
      while !harness.core.courier.isFailing(.email) { try await Task.sleep(for: .milliseconds(2)) }
      for identifier in ["ada@example.com", "eve@example.com"] {
        let error = await expectRefusal(.unavailable, "CODE_DELIVERY_FAILED") { try await send(harness, identifier) }
        #expect(error?.details.retryAfter == Limits.codeSinkRest)
      }
      // Numbers are another matter.
      _ = try await send(harness, "+14155550123")
      box.breakDown(false)
      harness.clock.advance(by: .seconds(60))
      _ = try await send(harness)
      let code = try await box.code()
      _ = try await signIn(harness, code)
    }
  }

  @Test("G25: a code that did not arrive is void and costs nothing of the hour's", .timeLimit(.minutes(1)))
  func withdrawn() async throws {
    try await with { harness, box in
      box.breakDown(true)
      for _ in 0..<8 {
        _ = try await send(harness)
        while !harness.core.courier.isFailing(.email) { try await Task.sleep(for: .milliseconds(2)) }
        // Withdrawn a moment later.
        while await isWaiting(harness) { try await Task.sleep(for: .milliseconds(2)) }
        harness.clock.advance(by: Limits.codeSinkRest)
      }
      box.breakDown(false)
      _ = try await send(harness)
      _ = try await signIn(harness, try await box.code())
    }
  }

  /// Whether a code stands in the way of another.
  private func isWaiting(_ harness: IdentityHarness) async -> Bool {
    guard let identifier = AccountIdentifier("ada@example.com") else { return false }
    let kept = try? await harness.database.read("look") { db throws(StorageError) in
      try db.first(
        "SELECT attempts_left FROM one_time_codes WHERE identifier_hash = ?",
        .blob(harness.core.codes.identifierHash(identifier))
      ) { $0.integer(0) }
    }
    return kept != 0
  }

  @Test("G23: a network that asks for many codes does work for more, bound to the address", .timeLimit(.minutes(1)))
  func work() async throws {
    try await with(codesPerHour: 2) { harness, _ in
      for name in ["a", "b"] { _ = try await send(harness, "\(name)@example.com") }
      let error = await expectRefusal(.failedPrecondition, "CHALLENGE_REQUIRED") {
        try await send(harness, "c@example.com")
      }
      let info = try (error?.details.info).orThrow()
      let challenge = try info.first { $0.key == "challenge" }.orThrow().value
      let bits = try Int(info.first { $0.key == "pow_bits" }.orThrow().value).orThrow()
      var solution: [UInt8] = [0, 0, 0, 0]
      var counter: UInt32 = 0
      repeat {
        counter += 1
        solution = (0..<4).map { UInt8(truncatingIfNeeded: counter >> ($0 * 8)) }
      } while ProofOfWork.leadingZeroBits(SHA256Hash.hash(Array(challenge.utf8) + solution)) < bits
      await expectRefusal(.failedPrecondition, "CHALLENGE_REQUIRED") {
        try await send(harness, "d@example.com", challenge: challenge, solution: solution)
      }
      _ = try await send(harness, "c@example.com", challenge: challenge, solution: solution)
    }
  }

  @Test("G22: a code goes to an address or number only, and has six digits")
  func fields() async throws {
    try await with { harness, _ in
      await expectRefusal(.invalidArgument, field: "identifier") { try await send(harness, "ada_lovelace") }
      await expectRefusal(.invalidArgument, field: "identifier") { try await send(harness, "ada@") }
      for code in ["", "12345", "1234567", "12345a", "１２３４５６"] {
        await expectRefusal(.invalidArgument, field: "otp.code") { try await signIn(harness, code) }
      }
    }
  }

  @Test("R2: the database holds no code, and the development sink's file is its owner's alone", .timeLimit(.minutes(1)))
  func atRest() async throws {
    let harness = try await IdentityHarness()
    _ = try await harness.register("+14155550123")
    try await harness.proveAddresses()
    let courier = Task { await harness.core.courier.run() }
    defer { courier.cancel() }
    _ = try await send(harness, "+14155550123")
    let path = "\(harness.folder.path)/otp-outbox.jsonl"
    var line: [UInt8] = []
    while line.last != UInt8(ascii: "\n") {
      line = FileLook.contents(of: path)
      try await Task.sleep(for: .milliseconds(2))
    }
    #expect(FileLook.mode(of: path) == 0o600)
    let json = try JSONValue(parsing: Array(line.dropLast()))
    #expect(json["to"]?.string == "+14155550123")
    let code = try (json["code"]?.string).orThrow()
    for name in ["identity.db", "identity.db-wal"] {
      let text = String(decoding: FileLook.contents(of: "\(harness.folder.path)/\(name)"), as: UTF8.self)
      #expect(text.firstRange(of: "\(code)") == nil)
    }
    _ = try await signIn(harness, code, "+14155550123")
  }

  @Test("G23: each digit of a code is as likely as any other")
  func uniform() {
    let mint = CodeMint(key: RedactedSecret([1]), random: RandomSource { SecureRandom.bytes($0) })
    var counts = [Int](repeating: 0, count: 10)
    for _ in 0..<5000 { for digit in mint.make(digits: 6).utf8 { counts[Int(digit) - 48] += 1 } }
    // 3,000 expected of each; six standard deviations are some 312.
    for count in counts { #expect(abs(count - 3000) < 400) }
  }
}
