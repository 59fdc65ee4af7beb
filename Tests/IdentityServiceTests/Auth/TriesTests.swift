import GRPC
import LatchkeyModel
import LatchkeyProtos
import Testing

@testable import IdentityService

@Suite("Wrong tries, and whom they cost")
struct TriesTests {
  private let stranger = "198.51.100.9"

  private func with(_ body: (IdentityHarness, Postbox) async throws -> Void) async throws {
    let box = Postbox()
    let harness = try await IdentityHarness(codeSink: box)
    let courier = Task { await harness.core.courier.run() }
    defer { courier.cancel() }
    try await body(harness, box)
  }

  /// An account that signs in by a code as well: with its address proven.
  private func account(_ harness: IdentityHarness, _ box: Postbox) async throws -> CommonV1.TokenSet {
    let sent = box.codes.count
    _ = try await harness.auth.sendOtp(
      IdentityV1.SendOtpRequest(clientID: "app.test", identifier: "ada@example.com", purpose: .proveAddress))
    let code = try await box.code(sent + 1)
    let answer = try await harness.auth.register(
      IdentityV1.RegisterRequest(
        clientID: "app.test",
        password: IdentityV1.PasswordCredential(identifier: "ada@example.com", password: IdentityHarness.password),
        otp: IdentityV1.OtpCredential(identifier: "ada@example.com", code: code)))
    harness.clock.advance(by: .seconds(60))
    return try answer.tokens.orThrow()
  }

  private func attempt(
    _ harness: IdentityHarness, _ method: IdentityV1.AuthenticateRequest.Method, from address: String,
    guest: CommonV1.TokenSet? = nil
  ) async throws -> IdentityV1.AuthenticateResponse {
    try await harness.auth(from: address).authenticate(
      IdentityV1.AuthenticateRequest(
        clientID: "app.test", method: method, guestToken: guest?.accessToken ?? "",
        onConflict: guest == nil ? .unspecified : .switch))
  }

  private func password(
    _ identifier: String, _ text: String = IdentityHarness.password
  ) -> IdentityV1.AuthenticateRequest.Method {
    .password(IdentityV1.PasswordCredential(identifier: identifier, password: text))
  }

  /// Whether a try was looked at, right or wrong, rather than told to wait.
  private func isLookedAt(_ call: () async throws -> IdentityV1.AuthenticateResponse) async -> Bool {
    do {
      _ = try await call()
      return true
    } catch {
      return (error as? RPCError)?.details.reason != "TOO_MANY_ATTEMPTS"
    }
  }

  private func code(_ harness: IdentityHarness, _ box: Postbox, from address: String) async throws -> String {
    let sent = box.codes.count
    _ = try await harness.auth(from: address).sendOtp(
      IdentityV1.SendOtpRequest(clientID: "app.test", identifier: "ada@example.com"))
    return try await box.code(sent + 1)
  }

  private func other(than code: String) -> String { code == "000000" ? "000001" : "000000" }

  @Test("R49: tries count for the account, through all its identifiers and methods", .timeLimit(.minutes(1)))
  func identifiers() async throws {
    try await with { harness, box in
      let tokens = try await account(harness, box)
      let names = (1...6).map { "ada_name\($0)" }
      for name in names {
        _ = try await harness.link(.identifier(name), tokens, password: IdentityHarness.password)
      }
      let code = try await self.code(harness, box, from: stranger)
      var looked = 0
      for _ in 0..<4 {
        for name in names
        where await isLookedAt({ try await attempt(harness, password(name, "wrong"), from: stranger) }) { looked += 1 }
        let guess = IdentityV1.OtpCredential(identifier: "ada@example.com", code: other(than: code))
        if await isLookedAt({ try await attempt(harness, .otp(guess), from: stranger) }) { looked += 1 }
      }
      #expect(looked == Int(AttemptPolicy().free))
    }
  }

  @Test("R49: a step-up by somebody else tries nobody's secret and clears nobody's tries", .timeLimit(.minutes(1)))
  func stepUpByAnother() async throws {
    try await with { harness, box in
      _ = try await account(harness, box)
      let bob = try await harness.register("bob@example.com").tokens
      func stepUp(_ method: IdentityV1.StepUpRequest.Method) async throws -> IdentityV1.StepUpResponse {
        try await harness.auth(from: stranger).stepUp(
          IdentityV1.StepUpRequest(method: method), options: .bearer(bob))
      }
      let sent = try await self.code(harness, box, from: "192.0.2.7")
      for _ in 0..<9 {
        await expectRefusal(.unauthenticated, "INVALID_CREDENTIALS") {
          try await attempt(harness, password("ada@example.com", "wrong"), from: stranger)
        }
      }
      let right = IdentityV1.PasswordCredential(identifier: "ada@example.com", password: IdentityHarness.password)
      await expectRefusal(.unauthenticated, "INVALID_CREDENTIALS") { try await stepUp(.password(right)) }
      // A code that was sent to her is none to him, right or wrong, and loses none of its tries.
      for code in [sent] + Array(repeating: other(than: sent), count: 6) {
        await expectRefusal(.unauthenticated, "CODE_VOID") {
          try await stepUp(.otp(IdentityV1.OtpCredential(identifier: "ada@example.com", code: code)))
        }
      }
      await expectRefusal(.unauthenticated, "INVALID_CREDENTIALS") {
        try await attempt(harness, password("ada@example.com", "wrong"), from: stranger)
      }
      await expectRefusal(.resourceExhausted, "TOO_MANY_ATTEMPTS") {
        try await attempt(harness, password("ada@example.com", "wrong"), from: stranger)
      }
      let credential = IdentityV1.OtpCredential(identifier: "ada@example.com", code: sent)
      _ = try await attempt(harness, .otp(credential), from: "192.0.2.7")
    }
  }

  @Test("R49: a right secret that signs nobody in begins no count of wrong tries anew", .timeLimit(.minutes(1)))
  func refusedSignIn() async throws {
    try await with { harness, box in
      let tokens = try await account(harness, box)
      let profile = try await harness.accounts.getProfile(IdentityV1.GetProfileRequest(), options: .bearer(tokens))
      let code = try await self.code(harness, box, from: stranger)
      _ = try await harness.admin.disableSubject(
        IdentityV1.DisableSubjectRequest(sub: try profile.subject.orThrow().sub), options: .service)
      let right: [IdentityV1.AuthenticateRequest.Method] = [
        password("ada@example.com"), .otp(IdentityV1.OtpCredential(identifier: "ada@example.com", code: code)),
      ]
      let guest = try await harness.issueGuest(try TestDevice())
      func guess(_ reason: String = "INVALID_CREDENTIALS") async {
        await expectRefusal(nil, reason) {
          try await attempt(harness, password("ada@example.com", "wrong"), from: stranger)
        }
      }
      for _ in 0..<9 { await guess() }
      for method in right + right {
        await expectRefusal(.permissionDenied, "SUBJECT_DISABLED") {
          try await attempt(harness, method, from: stranger)
        }
        // Nor is a guest asked what is to become of their data.
        await expectRefusal(.permissionDenied, "SUBJECT_DISABLED") {
          try await harness.auth(from: stranger).authenticate(
            IdentityV1.AuthenticateRequest(
              clientID: "app.test", method: method, guestToken: guest.tokens?.accessToken ?? "", onConflict: .report))
        }
      }
      await guess()
      await guess("TOO_MANY_ATTEMPTS")
    }
  }

  @Test("R49: a sign-in that is repeated begins no count of wrong tries anew")
  func repetitionsBetweenGuesses() async throws {
    try await with { harness, box in
      _ = try await account(harness, box)
      func signIn() async throws -> String {
        try await harness.authenticate(password("ada@example.com"), key: "tap").tokens.orThrow().sid
      }
      func guess(_ reason: String = "INVALID_CREDENTIALS") async {
        await expectRefusal(nil, reason) {
          try await harness.authenticate(password("ada@example.com", "wrong"), key: "another")
        }
      }
      let first = try await signIn()
      for _ in 0..<9 { await guess() }
      for _ in 0..<2 {
        let again = try await signIn()
        #expect(again == first)
      }
      await guess()
      await guess("TOO_MANY_ATTEMPTS")
    }
  }

  @Test("R49: a secret that only asks what a sign-in would replace begins no count of wrong tries anew")
  func reportsBetweenGuesses() async throws {
    try await with { harness, box in
      _ = try await account(harness, box)
      let guest = try await harness.issueGuest(try TestDevice())
      func guess(_ reason: String = "INVALID_CREDENTIALS") async {
        await expectRefusal(nil, reason) {
          try await attempt(harness, password("ada@example.com", "wrong"), from: stranger)
        }
      }
      for _ in 0..<9 { await guess() }
      for _ in 0..<2 {
        let answer = try await harness.auth(from: stranger).authenticate(
          IdentityV1.AuthenticateRequest(
            clientID: "app.test", method: password("ada@example.com"), guestToken: guest.tokens?.accessToken ?? "",
            onConflict: .report))
        #expect(answer.conflict != nil)
      }
      await guess()
      await guess("TOO_MANY_ATTEMPTS")
    }
  }

  @Test("R49: a code for what is verified or linked begins no count of wrong tries anew", .timeLimit(.minutes(1)))
  func nothingGranted() async throws {
    try await with { harness, box in
      let tokens = try await account(harness, box)
      let home = "192.0.2.7"
      func sent(to address: String) async throws -> IdentityV1.OtpCredential {
        let count = box.codes.count
        let answer = try await harness.auth(from: address).sendOtp(
          IdentityV1.SendOtpRequest(clientID: "app.test", identifier: "ada@example.com"))
        return IdentityV1.OtpCredential(
          identifier: "ada@example.com", code: try await box.code(count + 1), handle: answer.handle)
      }
      func guess(_ reason: String = "INVALID_CREDENTIALS") async {
        await expectRefusal(nil, reason) {
          try await attempt(harness, password("ada@example.com", "wrong"), from: home)
        }
      }
      let (first, second) = (try await sent(to: home), try await sent(to: stranger))
      for _ in 0..<9 { await guess() }
      let verified = try await harness.accounts.verifyIdentifier(
        IdentityV1.VerifyIdentifierRequest(otp: first), options: .bearer(tokens))
      await guess()
      await guess("TOO_MANY_ATTEMPTS")
      harness.clock.advance(by: .seconds(1))
      let linked = try await harness.link(.otp(second), tokens)
      #expect(!verified.verified && !linked.linked)
      await guess()
      await guess("TOO_MANY_ATTEMPTS")
    }
  }

  @Test("R49, R24: of a thousand tries from everywhere at once a few are looked at", .timeLimit(.minutes(1)))
  func everywhere() async throws {
    try await with { harness, box in
      _ = try await account(harness, box)
      var looked = 0
      for number in 0..<250 {
        let address = "203.0.\(number).1"
        for _ in 0..<4
        where await isLookedAt({ try await attempt(harness, password("ada@example.com", "wrong"), from: address) }) {
          looked += 1
        }
      }
      #expect(looked >= 10 && looked <= Int(AttemptPolicy().limit))
      // Whoever signed in from there before is not kept out by any of them.
      _ = try await attempt(harness, password("ada@example.com"), from: "192.0.2.7")
    }
  }

  @Test("R24: a hundred wrong tries of strangers later, the owner's device signs in", .timeLimit(.minutes(1)))
  func ownDevice() async throws {
    try await with { harness, box in
      _ = try await account(harness, box)
      let device = try TestDevice()
      let first = try await harness.issueGuest(device)
      _ = try await attempt(harness, password("ada@example.com"), from: "192.0.2.7", guest: first.tokens)
      for number in 0..<100 {
        _ = try? await attempt(harness, password("ada@example.com", "wrong"), from: "203.0.113.\(number)")
        harness.clock.advance(by: .seconds(600))
      }
      let guest = try await harness.issueGuest(device)
      // From a network that nobody knows.
      _ = try await attempt(harness, password("ada@example.com"), from: "198.51.100.77", guest: guest.tokens)
      await expectRefusal(.resourceExhausted, "TOO_MANY_ATTEMPTS") {
        try await attempt(harness, password("ada@example.com"), from: "198.51.100.78")
      }
    }
  }

  @Test("R50: five codes that a stranger asks for leave the owner theirs", .timeLimit(.minutes(1)))
  func sends() async throws {
    try await with { harness, box in
      _ = try await account(harness, box)
      for _ in 0..<5 {
        _ = try await self.code(harness, box, from: stranger)
        harness.clock.advance(by: .seconds(60))
      }
      let refusal = await expectRefusal(.resourceExhausted, "RESEND_TOO_SOON") {
        try await self.code(harness, box, from: stranger)
      }
      #expect(refusal?.details.retryAfter != nil)
      let code = try await self.code(harness, box, from: "192.0.2.7")
      let credential = IdentityV1.OtpCredential(identifier: "ada@example.com", code: code)
      _ = try await attempt(harness, .otp(credential), from: "192.0.2.7")
    }
  }

  @Test("R50: a stranger's wrong tries and new codes leave the owner's code as it is", .timeLimit(.minutes(1)))
  func wrongTries() async throws {
    try await with { harness, box in
      _ = try await account(harness, box)
      let code = try await self.code(harness, box, from: "192.0.2.7")
      let guess = IdentityV1.OtpCredential(identifier: "ada@example.com", code: other(than: code))
      for number in 0..<6 { _ = try? await attempt(harness, .otp(guess), from: "203.0.113.\(number)") }
      harness.clock.advance(by: .seconds(61))
      _ = try await self.code(harness, box, from: stranger)
      for _ in 0..<6 { _ = try? await attempt(harness, .otp(guess), from: stranger) }
      let credential = IdentityV1.OtpCredential(identifier: "ada@example.com", code: code)
      _ = try await attempt(harness, .otp(credential), from: "192.0.2.7")
      // Spent; the stranger's own is another.
      await expectRefusal(.unauthenticated) { try await attempt(harness, .otp(credential), from: "192.0.2.7") }
    }
  }
}
