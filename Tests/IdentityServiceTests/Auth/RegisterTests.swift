import Cryptography
import Domain
import GRPC
import LatchkeyModel
import LatchkeyProtos
import Testing

@testable import IdentityService

@Suite("Registering")
struct RegisterTests {
  private static let id = "8d3a9f52-0f6e-4c06-9d7e-0c4a8e2b1f77"
  private static let secret = "5b1e1c9e-5d7b-4c0e-8f0a-3f5f0e6c9a11"

  /// A service whose courier is at work.
  private func with(
    registrationsPerHour: Int = 1_000_000,
    codesRequired: Bool = false,
    _ body: (IdentityHarness, Postbox) async throws -> Void
  ) async throws {
    let box = Postbox()
    let harness = try await IdentityHarness(
      codesRequired: codesRequired, registrationsPerHour: registrationsPerHour, codeSink: box)
    let courier = Task { await harness.core.courier.run() }
    defer { courier.cancel() }
    try await body(harness, box)
  }

  private func code(
    _ harness: IdentityHarness,
    _ box: Postbox,
    for identifier: String
  ) async throws -> IdentityV1.OtpCredential {
    let count = box.codes.count
    _ = try await harness.auth.sendOtp(
      IdentityV1.SendOtpRequest(clientID: "app.test", identifier: identifier, purpose: .proveAddress)
    )
    return IdentityV1.OtpCredential(identifier: identifier, code: try await box.code(count + 1))
  }

  private func register(
    _ harness: IdentityHarness,
    password: IdentityV1.PasswordCredential? = nil,
    otp: IdentityV1.OtpCredential? = nil,
    customSecret: IdentityV1.CustomSecretCredential? = nil,
    guest: CommonV1.TokenSet? = nil,
    key: String? = nil,
    challenge: String = "",
    solution: [UInt8] = []
  ) async throws -> IdentityV1.RegisterResponse {
    try await harness.auth.register(
      IdentityV1.RegisterRequest(
        clientID: "app.test",
        password: password,
        guestToken: guest?.accessToken ?? "",
        nickname: "Ada",
        locale: "en",
        otp: otp,
        customSecret: customSecret,
        challenge: challenge,
        powSolution: solution
      ),
      options: CallOptions(metadata: key.map { ["idempotency-key": $0] } ?? Metadata())
    )
  }

  private func password(_ identifier: String) -> IdentityV1.PasswordCredential {
    IdentityV1.PasswordCredential(identifier: identifier, password: IdentityHarness.password)
  }

  @Test("G20: a code alone makes an account, which signs in by codes; the guest becomes it", .timeLimit(.minutes(1)))
  func byCode() async throws {
    try await with { harness, box in
      let guest = try await harness.issueGuest(try TestDevice())
      let code = try await code(harness, box, for: "ada@example.com")
      let account = try await register(harness, otp: code, guest: guest.tokens)
      #expect(account.accountChange?.promoted == true && account.subject?.sub == guest.subject?.sub)
      await expectRefusal(.unauthenticated, "CODE_VOID") { try await register(harness, otp: code) }
      await expectRefusal(.unauthenticated, "INVALID_CREDENTIALS") { try await harness.signIn("ada@example.com") }
      harness.clock.advance(by: .seconds(61))
      let again = try await self.code(harness, box, for: "ada@example.com")
      await expectRefusal(.alreadyExists, "IDENTITY_IN_USE") { try await register(harness, otp: again) }
      // That code is not used up by the refusal: its owner signs in with it.
      #expect(try await harness.authenticate(.otp(again)).subject?.sub == account.subject?.sub)
    }
  }

  @Test("G20: a password with a code proves the address, which must be the same", .timeLimit(.minutes(1)))
  func withCode() async throws {
    try await with { harness, box in
      let other = try await code(harness, box, for: "eve@example.com")
      await expectRefusal(.invalidArgument, field: "otp.identifier") {
        try await register(harness, password: password("ada@example.com"), otp: other)
      }
      var code = try await code(harness, box, for: "ada@example.com")
      let right = code.code
      code.code = right == "000000" ? "000001" : "000000"
      await expectRefusal(.unauthenticated, "CODE_INVALID") {
        try await register(harness, password: password("ada@example.com"), otp: code)
      }
      code.code = right
      _ = try await register(harness, password: password("Ada@Example.com"), otp: code)
      _ = try await harness.signIn("ada@example.com")
    }
  }

  @Test("R25: a code to sign in is sent to accounts only, one to prove an address to anyone", .timeLimit(.minutes(1)))
  func purposes() async throws {
    try await with { harness, box in
      _ = try await harness.auth.sendOtp(
        IdentityV1.SendOtpRequest(clientID: "app.test", identifier: "eve@example.com")
      )
      _ = try await code(harness, box, for: "ada@example.com")
      #expect(box.codes.count == 1)
    }
  }

  @Test("D3: a name and a secret that an app made are an account, and another linked one beside it")
  func customSecret() async throws {
    let harness = try await IdentityHarness()
    let guest = try await harness.issueGuest(try TestDevice())
    let credential = IdentityV1.CustomSecretCredential(id: Self.id, secret: Self.secret)
    let account = try await register(harness, customSecret: credential, guest: guest.tokens)
    #expect(account.accountChange?.promoted == true)
    #expect(try await harness.authenticate(.customSecret(credential)).subject?.sub == account.subject?.sub)
    await expectRefusal(.alreadyExists, "IDENTITY_IN_USE") { try await register(harness, customSecret: credential) }
    // Without a password, a moment after the sign-in is proof enough; later it is not.
    let second = IdentityV1.CustomSecretCredential(id: "another-name-1234", secret: "another-secret-1234")
    #expect(try await harness.link(.customSecret(second), account.tokens).linked)
    #expect(try await harness.authenticate(.customSecret(second)).subject?.sub == account.subject?.sub)
    harness.clock.advance(by: .seconds(301))
    await expectRefusal(.unauthenticated, "STEP_UP_REQUIRED") {
      try await harness.link(.customSecret(second), account.tokens)
    }
    // The name is no user name that a password could be tried with.
    await expectRefusal(.invalidArgument, field: "password.identifier") {
      try await harness.signIn(Self.id, password: Self.secret)
    }
  }

  @Test("G22: a custom name and secret are long enough to be random, and stand alone")
  func customFields() async throws {
    let harness = try await IdentityHarness()
    for id in ["", "short", "has a space in the name", String(repeating: "a", count: 65)] {
      await expectRefusal(.invalidArgument, field: "custom_secret.id") {
        try await register(harness, customSecret: .init(id: id, secret: Self.secret))
      }
    }
    for secret in ["", "only-15-charac", String(repeating: "a", count: 129)] {
      await expectRefusal(.invalidArgument, field: "custom_secret.secret") {
        try await register(harness, customSecret: .init(id: Self.id, secret: secret))
      }
    }
    await expectRefusal(.invalidArgument, field: "custom_secret") {
      try await register(
        harness,
        password: password("ada@example.com"),
        customSecret: .init(id: Self.id, secret: Self.secret)
      )
    }
    await expectRefusal(.invalidArgument, field: "password") { try await register(harness) }
  }

  @Test("R24: a custom secret is hashed anew at today's cost as it signs in")
  func rehash() async throws {
    let harness = try await IdentityHarness()
    let credential = IdentityV1.CustomSecretCredential(id: Self.id, secret: Self.secret)
    _ = try await register(harness, customSecret: credential)
    let identifier = AccountIdentifier.customID(try CustomID(Self.id).orThrow())
    let before = try await harness.core.look(FindAccount(for: identifier))?.passwordHash
    await harness.database.close()
    let stronger = try await IdentityHarness(
      folder: harness.folder,
      clock: harness.clock,
      hashing: Argon2Parameters(memoryKiB: 128, passes: 1, lanes: 1)
    )
    _ = try await stronger.authenticate(.customSecret(credential))
    let after = try await stronger.core.look(FindAccount(for: identifier))?.passwordHash
    #expect(before != after && after?.contains("m=128") == true)
    _ = try await stronger.authenticate(.customSecret(credential))
  }

  @Test("G24: registering twice with one key makes one account, also when both come at once", .timeLimit(.minutes(1)))
  func once() async throws {
    try await with { harness, box in
      let guest = try await harness.issueGuest(try TestDevice())
      let code = try await code(harness, box, for: "ada@example.com")
      let first = try await register(harness, otp: code, guest: guest.tokens, key: "tap")
      #expect(
        try await register(harness, otp: code, guest: guest.tokens, key: "tap").accountChange == first.accountChange
      )
      let sids = try await withThrowingTaskGroup(of: String.self) { group in
        for _ in 0..<6 {
          group.addTask {
            try await register(harness, password: password("bob@example.com"), key: "both").tokens.orThrow().sid
          }
        }
        return try await group.reduce(into: Set<String>()) { $0.insert($1) }
      }
      #expect(sids.count == 1)
      await expectRefusal(.alreadyExists, "IDENTITY_IN_USE") {
        try await register(harness, password: password("bob@example.com"), key: "another")
      }
    }
  }

  @Test("R24: under a key that leaked what registered is guessed as slowly as by signing in")
  func guessesUnderAKey() async throws {
    let harness = try await IdentityHarness()
    func ask(_ text: String, from address: String = "192.0.2.7") async throws -> String {
      let credential = IdentityV1.PasswordCredential(identifier: "ada@example.com", password: text)
      return try await harness.auth(from: address).register(
        IdentityV1.RegisterRequest(clientID: "app.test", password: credential),
        options: CallOptions(metadata: ["idempotency-key": "tap"])
      ).tokens.orThrow().sid
    }
    let first = try await ask(IdentityHarness.password)
    // However often whoever lost the answer asks, none of it is a wrong try.
    for _ in 0..<12 { #expect(try await ask(IdentityHarness.password) == first) }
    let stranger = "198.51.100.9"
    for number in 0..<10 {
      await expectRefusal(.alreadyExists, "IDENTITY_IN_USE") { try await ask("wrong horse \(number)", from: stranger) }
    }
    await expectRefusal(.resourceExhausted, "TOO_MANY_ATTEMPTS") {
      try await ask(IdentityHarness.password, from: stranger)
    }
    #expect(try await ask(IdentityHarness.password) == first)
  }

  @Test("R24: under a key that leaked the code that registered is guessed as slowly", .timeLimit(.minutes(1)))
  func codesUnderAKey() async throws {
    try await with { harness, box in
      let right = try await code(harness, box, for: "ada@example.com")
      func ask(_ code: String, from address: String = "192.0.2.7") async throws -> String {
        let credential = IdentityV1.OtpCredential(identifier: "ada@example.com", code: code)
        return try await harness.auth(from: address).register(
          IdentityV1.RegisterRequest(clientID: "app.test", otp: credential),
          options: CallOptions(metadata: ["idempotency-key": "tap"])
        ).tokens.orThrow().sid
      }
      let first = try await ask(right.code)
      #expect(try await ask(right.code) == first)
      let (stranger, wrong) = ("198.51.100.9", right.code == "000000" ? "000001" : "000000")
      for _ in 0..<10 {
        await expectRefusal(.unauthenticated, "CODE_VOID") { try await ask(wrong, from: stranger) }
      }
      await expectRefusal(.resourceExhausted, "TOO_MANY_ATTEMPTS") { try await ask(right.code, from: stranger) }
      #expect(try await ask(right.code) == first)
    }
  }

  @Test("G24: a registration with a code leaves no wrong try when it is repeated", .timeLimit(.minutes(1)))
  func repeatedCode() async throws {
    try await with { harness, box in
      let right = try await code(harness, box, for: "ada@example.com")
      let first = try await register(harness, otp: right, key: "tap").tokens.orThrow().sid
      // More often than wrong tries are free.
      for _ in 0..<12 {
        let again = try await register(harness, otp: right, key: "tap").tokens.orThrow().sid
        #expect(again == first)
      }
      await expectRefusal(.unauthenticated, "CODE_VOID") { try await register(harness, otp: right, key: "another") }
    }
  }

  @Test("G23: a network that makes many accounts does work for more, each for itself", .timeLimit(.minutes(1)))
  func work() async throws {
    try await with(registrationsPerHour: 2) { harness, _ in
      for name in ["a", "b"] { _ = try await register(harness, password: password("\(name)@example.com")) }
      let refusal = await expectRefusal(.failedPrecondition, "CHALLENGE_REQUIRED") {
        try await register(harness, password: password("c@example.com"))
      }
      let info = try (refusal?.details.info).orThrow()
      let challenge = try info.first { $0.key == "challenge" }.orThrow().value
      let bits = try Int(info.first { $0.key == "pow_bits" }.orThrow().value).orThrow()
      let solution = LoginMethodConformanceTests.solution(of: challenge, bits: bits)
      await expectRefusal(.failedPrecondition, "CHALLENGE_REQUIRED") {
        try await register(
          harness,
          password: password("d@example.com"),
          challenge: challenge,
          solution: solution
        )
      }
      _ = try await register(harness, password: password("c@example.com"), challenge: challenge, solution: solution)
    }
  }

  @Test("G20: an address is linked by the code that was sent there", .timeLimit(.minutes(1)))
  func linkByCode() async throws {
    try await with { harness, box in
      let account = try await harness.register("ada@example.com").tokens
      let code = try await code(harness, box, for: "+14155550123")
      #expect(try await harness.link(.otp(code), account, password: IdentityHarness.password).linked)
      await expectRefusal(.unauthenticated, "CODE_VOID") {
        try await harness.link(.otp(code), account, password: IdentityHarness.password)
      }
      _ = try await harness.signIn("+14155550123")
    }
  }

  @Test("R34: where codes are required, an address that nobody was shown to own leads nowhere", .timeLimit(.minutes(1)))
  func codesRequired() async throws {
    try await with(codesRequired: true) { harness, box in
      for address in ["eve@example.com", "+14155550199"] {
        let refusal = await expectRefusal(.failedPrecondition, "CODE_REQUIRED") {
          try await register(harness, password: password(address))
        }
        #expect(refusal?.message.hasPrefix("password.identifier: ") == true)
      }
      // What nobody else can have needs no code.
      let named = try await register(harness, password: password("ada_l"))
      let secret = IdentityHarness.password
      for address in ["eve@example.com", "+14155550199"] {
        await expectRefusal(.failedPrecondition, "CODE_REQUIRED") {
          try await harness.link(.identifier(address), named.tokens, password: secret)
        }
        await expectRefusal(.unauthenticated, "INVALID_CREDENTIALS") { try await harness.signIn(address) }
      }
      #expect(try await harness.link(.identifier("ada_2"), named.tokens, password: secret).linked)
      let own = try await code(harness, box, for: "ada@example.com")
      #expect(try await harness.link(.otp(own), named.tokens, password: secret).linked)
      _ = try await harness.signIn("ada@example.com")
      let other = try await code(harness, box, for: "bob@example.com")
      _ = try await register(harness, password: password("bob@example.com"), otp: other)
      _ = try await harness.signIn("bob@example.com")
    }
  }
}
