import GRPC
import LatchkeyProtos
import Testing

@testable import IdentityService

@Suite("Repeated sign-ins")
struct RepeatedSignInTests {
  private static let stranger = "198.51.100.9"

  private func signIn(
    _ harness: IdentityHarness, key: String, password: String = IdentityHarness.password,
    guest: CommonV1.TokenSet? = nil, onConflict: IdentityV1.OnConflict = .unspecified
  ) async throws -> IdentityV1.AuthenticateResponse {
    try await harness.auth.authenticate(
      IdentityV1.AuthenticateRequest(
        clientID: "app.test",
        method: .password(IdentityV1.PasswordCredential(identifier: "ada@example.com", password: password)),
        guestToken: guest?.accessToken ?? "",
        onConflict: onConflict
      ),
      options: CallOptions(metadata: ["idempotency-key": key]))
  }

  @Test("G24: a double tap begins one session, also when both taps arrive together")
  func doubleTap() async throws {
    let harness = try await IdentityHarness()
    let registered = try await harness.register("ada@example.com")
    let sids = try await withThrowingTaskGroup(of: String.self) { group in
      for _ in 0..<8 {
        group.addTask { try await signIn(harness, key: "tap-1").tokens.orThrow().sid }
      }
      return try await group.reduce(into: Set<String>()) { $0.insert($1) }
    }
    #expect(sids.count == 1)
    let sessions = try await harness.sessions.listSessions(
      IdentityV1.ListSessionsRequest(), options: .bearer(registered.tokens)
    ).sessions
    #expect(sessions.count == 2)
    #expect(try await signIn(harness, key: "tap-2").tokens?.sid != sids.first)
  }

  @Test("G24: a sign-in whose answer was lost is answered again, though it ended the guest's session")
  func lostAnswer() async throws {
    let harness = try await IdentityHarness()
    _ = try await harness.register("ada@example.com")
    let guest = try await harness.issueGuest(try TestDevice())
    let first = try await signIn(harness, key: "tap", guest: guest.tokens, onConflict: .switch)
    #expect(try await !harness.isActive(guest.tokens.orThrow().accessToken))
    let again = try await signIn(harness, key: "tap", guest: guest.tokens, onConflict: .switch)
    #expect(again.tokens?.sid == first.tokens?.sid)
    #expect(again.accountChange == first.accountChange)
    #expect(try await harness.refresh(again.tokens).sid == first.tokens?.sid)
  }

  @Test("R24: under a key that leaked a password is guessed as slowly as without one")
  func guessesUnderAKey() async throws {
    let harness = try await IdentityHarness()
    _ = try await harness.register("ada@example.com")
    let first = try await signIn(harness, key: "tap")
    var refusals: Set<String> = []
    for index in 0..<200 {
      do {
        _ = try await signIn(harness, key: "tap", password: "wrong horse \(index)")
      } catch let error as RPCError {
        refusals.insert(error.details.reason ?? "\(error.code)")
      }
    }
    #expect(refusals.count > 1, "nothing was throttled: \(refusals)")
    // The right one tells nothing while tries are throttled.
    let guessed = try? await signIn(harness, key: "tap")
    #expect(guessed?.tokens?.sid != first.tokens?.sid)
  }

  @Test("R24: under a key that leaked a code is guessed as slowly as without one", .timeLimit(.minutes(1)))
  func codesUnderAKey() async throws {
    let box = Postbox()
    let harness = try await IdentityHarness(codeSink: box)
    let courier = Task { await harness.core.courier.run() }
    defer { courier.cancel() }
    _ = try await harness.register("ada@example.com")
    try await harness.proveAddresses()
    _ = try await harness.auth.sendOtp(
      IdentityV1.SendOtpRequest(clientID: "app.test", identifier: "ada@example.com"))
    let code = try await box.code()
    func signIn(_ code: String, from address: String = "192.0.2.7") async throws -> String {
      let credential = IdentityV1.OtpCredential(identifier: "ada@example.com", code: code)
      return try await harness.auth(from: address).authenticate(
        IdentityV1.AuthenticateRequest(clientID: "app.test", method: .otp(credential)),
        options: CallOptions(metadata: ["idempotency-key": "tap"])
      ).tokens.orThrow().sid
    }
    let first = try await signIn(code)
    // Whose answer was lost asks again.
    for _ in 0..<3 { #expect(try await signIn(code) == first) }
    let wrong = code == "000000" ? "000001" : "000000"
    for _ in 0..<10 {
      await expectRefusal(.unauthenticated, "CODE_VOID") { try await signIn(wrong, from: Self.stranger) }
    }
    await expectRefusal(.resourceExhausted, "TOO_MANY_ATTEMPTS") { try await signIn(code, from: Self.stranger) }
    #expect(try await signIn(code) == first)
  }

  @Test("G24: a sign-in by a code without its handle leaves no wrong try when it is repeated", .timeLimit(.minutes(1)))
  func repeatedCode() async throws {
    let box = Postbox()
    let harness = try await IdentityHarness(codeSink: box)
    let courier = Task { await harness.core.courier.run() }
    defer { courier.cancel() }
    _ = try await harness.register("ada@example.com")
    try await harness.proveAddresses()
    _ = try await harness.auth.sendOtp(
      IdentityV1.SendOtpRequest(clientID: "app.test", identifier: "ada@example.com"))
    let credential = IdentityV1.OtpCredential(identifier: "ada@example.com", code: try await box.code())
    let first = try await harness.authenticate(.otp(credential), key: "tap").tokens.orThrow().sid
    // More often than wrong tries are free.
    for _ in 0..<12 {
      let again = try await harness.authenticate(.otp(credential), key: "tap").tokens.orThrow().sid
      #expect(again == first)
    }
    await expectRefusal(.unauthenticated, "CODE_VOID") {
      try await harness.authenticate(.otp(credential), key: "another")
    }
  }

  @Test("R24: what is refused before a try is counted tells nothing of what a key that leaked was answered")
  func uncounted() async throws {
    let harness = try await IdentityHarness()
    let device = try TestDevice()
    let guest = try await harness.issueGuest(device)
    let tokens = try await harness.register("ada@example.com", guest: guest.tokens).tokens
    _ = try await harness.enrolPattern("1234", on: device, tokens)
    _ = try await signIn(harness, key: "tap")
    for password in ["wrong horse battery", IdentityHarness.password] {
      let credential = IdentityV1.PasswordCredential(identifier: "ada@example.com", password: password)
      await expectRefusal(.invalidArgument, field: "pow_solution") {
        try await harness.authenticate(.password(credential), key: "tap", solution: [UInt8](repeating: 0, count: 33))
      }
    }
    let proof = try await harness.proof(by: device.key, for: "latchkey-pattern-v1")
    func unlock(_ pattern: String) async throws -> IdentityV1.AuthenticateResponse {
      try await harness.authenticate(
        .pattern(IdentityV1.PatternCredential(proof: proof, pattern: pattern)), key: "unlock")
    }
    let first = try await unlock("1234")
    #expect(try await unlock("1234").tokens?.sid == first.tokens?.sid)
    harness.clock.advance(by: .seconds(301))
    for pattern in ["0000", "1234"] {
      await expectRefusal(.failedPrecondition, "CHALLENGE_INVALID") { try await unlock(pattern) }
    }
  }

  @Test("G24: a key alone opens nothing: another credential under it is looked at by itself")
  func keyAlone() async throws {
    let harness = try await IdentityHarness()
    _ = try await harness.register("ada@example.com")
    _ = try await signIn(harness, key: "tap")
    await expectRefusal(.unauthenticated, "INVALID_CREDENTIALS") {
      try await signIn(harness, key: "tap", password: "wrong horse battery")
    }
    for key in ["", "a b", String(repeating: "k", count: 129)] {
      await expectRefusal(.invalidArgument, field: "idempotency-key") { try await signIn(harness, key: key) }
    }
  }

  @Test("G24: a session that ended is not brought back by asking for it again, nor one after ten minutes")
  func over() async throws {
    let harness = try await IdentityHarness()
    _ = try await harness.register("ada@example.com")
    let first = try await signIn(harness, key: "tap")
    _ = try await harness.logOut(first.tokens)
    let second = try await signIn(harness, key: "tap")
    #expect(second.tokens?.sid != first.tokens?.sid)
    harness.clock.advance(by: Limits.signInReplay)
    #expect(try await signIn(harness, key: "tap").tokens?.sid != second.tokens?.sid)
  }
}
