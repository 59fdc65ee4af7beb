import Cryptography
import GRPC
import JSON
import LatchkeyModel
import LatchkeyProtos
import Synchronization

@testable import IdentityService

/// An account on a device, ready to sign in by one method, and what it takes to do so rightly and wrongly. A method that
/// is new needs its lines here to take part in the conformance suite; without them this does not compile.
struct MethodBench: Sendable {
  typealias Method = IdentityV1.AuthenticateRequest.Method

  static let methods = SignInMethod.allCases.filter { ![.guest, .transfer].contains($0) }

  /// What is presented.
  struct Credentials: Sendable {
    /// What holds; made anew for each call.
    let right: @Sendable () async throws -> Method
    /// The same account with another secret.
    let wrong: @Sendable () async throws -> Method
    /// A well-formed credential that leads nowhere.
    let unknown: @Sendable () async throws -> Method
    /// Texts that may be at rest nowhere.
    var secrets: @Sendable () -> [String] = { [] }
    /// Whether tries are counted for each account: where a secret can be guessed.
    var isGuessable = true
    /// Whether presenting the very same again must fail once it has signed in.
    var isOneTime = true
    /// The account as its owner recognises it.
    var mask = "a***@e***.com"
  }

  let harness: IdentityHarness
  let migrator: ScriptedMigrator
  let device: TestDevice
  /// The session on the device, and its account.
  let tokens: CommonV1.TokenSet
  let subject: String
  let credentials: Credentials
  private let courier: Courier

  /// Stops with the bench.
  private final class Courier: Sendable {
    private let task: Task<Void, Never>
    init(_ core: Insides) { task = Task { await core.courier.run() } }
    deinit { task.cancel() }
  }

  init(
    _ method: SignInMethod,
    signInsPerHour: Int = 1_000_000,
    hashing: Argon2Parameters = Argon2Parameters(memoryKiB: 64, passes: 1, lanes: 1)
  ) async throws {
    let box = Postbox()
    let provider = try TestProvider()
    migrator = ScriptedMigrator()
    harness = try await IdentityHarness(
      migrator: migrator,
      signInsPerHour: signInsPerHour,
      codeSink: box,
      providers: provider.providers(),
      hashing: hashing
    )
    device = try TestDevice()
    let guest = try await harness.issueGuest(device)
    let account = try await harness.register("ada@example.com", guest: guest.tokens)
    try await harness.proveAddresses()
    tokens = try account.tokens.orThrow()
    subject = try account.subject.orThrow().sub
    courier = Courier(harness.core)
    switch method {
    case .guest, .transfer: throw MissingValue()
    case .password: credentials = Self.password()
    case .otp: credentials = Self.otp(harness, box)
    case .customSecret: credentials = try await Self.customSecret(harness, tokens)
    case .deviceKey: credentials = try await Self.deviceKey(harness, tokens)
    case .pattern: credentials = try await Self.pattern(harness, device, tokens)
    case .qr: credentials = Self.qr(harness, tokens, subject)
    case .oidc: credentials = try await Self.idToken(harness, provider, tokens)
    }
  }

  private static func password() -> Credentials {
    @Sendable func credential(_ name: String, _ password: String) -> Method {
      .password(IdentityV1.PasswordCredential(identifier: name, password: password))
    }
    return Credentials(
      right: { credential("ada@example.com", IdentityHarness.password) },
      wrong: { credential("ada@example.com", "wrong horse battery") },
      unknown: { credential("eve@example.com", "wrong horse battery") },
      secrets: { [IdentityHarness.password] },
      isOneTime: false
    )
  }

  private static func otp(_ harness: IdentityHarness, _ box: Postbox) -> Credentials {
    // Sends a code, unless it is too soon for another: then the last one does, or the try is a wrong one all the same.
    @Sendable func send(_ identifier: String) async throws {
      do {
        _ = try await harness.auth.sendOtp(
          IdentityV1.SendOtpRequest(clientID: "app.test", identifier: identifier)
        )
      } catch {
        guard error.details.reason == "RESEND_TOO_SOON" else { throw error }
      }
    }
    @Sendable func credential(_ identifier: String, _ code: String) -> Method {
      .otp(IdentityV1.OtpCredential(identifier: identifier, code: code))
    }
    return Credentials(
      right: {
        let count = box.codes.count
        harness.clock.advance(by: .seconds(61))
        try await send("ada@example.com")
        return credential("ada@example.com", try await box.code(count + 1))
      },
      wrong: {
        try await send("ada@example.com")
        let newest = try await box.code()
        return credential("ada@example.com", newest == "000000" ? "000001" : "000000")
      },
      unknown: {
        try await send("eve@example.com")
        return credential("eve@example.com", "000000")
      },
      secrets: { box.codes }
    )
  }

  private static func customSecret(
    _ harness: IdentityHarness,
    _ tokens: CommonV1.TokenSet
  ) async throws -> Credentials {
    let id = "8d3a9f52-0f6e-4c06-9d7e-0c4a8e2b1f77"
    let secret = "5b1e1c9e-5d7b-4c0e-8f0a-3f5f0e6c9a11"
    _ = try await harness.link(
      .customSecret(IdentityV1.CustomSecretCredential(id: id, secret: secret)),
      tokens,
      password: IdentityHarness.password
    )
    @Sendable func credential(_ id: String, _ secret: String) -> Method {
      .customSecret(IdentityV1.CustomSecretCredential(id: id, secret: secret))
    }
    return Credentials(
      right: { credential(id, secret) },
      wrong: { credential(id, "00000000-5d7b-4c0e-8f0a-3f5f0e6c9a11") },
      unknown: { credential("00000000-0f6e-4c06-9d7e-0c4a8e2b1f77", secret) },
      secrets: { [secret] },
      isOneTime: false,
      mask: "8d***77"
    )
  }

  private static func deviceKey(_ harness: IdentityHarness, _ tokens: CommonV1.TokenSet) async throws -> Credentials {
    let key = try P256PrivateKey()
    let other = try P256PrivateKey()
    _ = try await harness.enrolKey(key, tokens)
    @Sendable func credential(_ key: P256PrivateKey, _ signer: P256PrivateKey) async throws -> Method {
      let proof = try await harness.proof(by: key, for: "latchkey-unlock-v1", signedBy: signer)
      return .deviceKey(IdentityV1.DeviceKeyCredential(proof: proof))
    }
    return Credentials(
      right: { try await credential(key, key) },
      wrong: { try await credential(key, other) },
      unknown: { try await credential(other, other) }
    )
  }

  private static func pattern(
    _ harness: IdentityHarness,
    _ device: TestDevice,
    _ tokens: CommonV1.TokenSet
  ) async throws -> Credentials {
    let pattern = "0-1-2-5-8-7"
    let other = try P256PrivateKey()
    _ = try await harness.enrolPattern(pattern, on: device, tokens)
    @Sendable func credential(_ key: P256PrivateKey, _ pattern: String) async throws -> Method {
      let proof = try await harness.proof(by: key, for: "latchkey-pattern-v1")
      return .pattern(IdentityV1.PatternCredential(proof: proof, pattern: pattern))
    }
    return Credentials(
      right: { try await credential(device.key, pattern) },
      wrong: { try await credential(device.key, "0-1-2-5-8-6") },
      unknown: { try await credential(other, pattern) },
      secrets: { [pattern] }
    )
  }

  private static func qr(_ harness: IdentityHarness, _ tokens: CommonV1.TokenSet, _ subject: String) -> Credentials {
    let granted = Tokens()
    return Credentials(
      right: {
        let id = "qr-\(granted.all.count)"
        let screen = try await harness.grants.issueForQr(
          IdentityV1.IssueForQrRequest(
            qrSessionID: id,
            sub: subject,
            confirmedBySid: tokens.sid,
            clientID: "app.test"
          ),
          options: .service
        )
        let token = try screen.tokens.orThrow().accessToken
        granted.add(token)
        return .qrGrant(IdentityV1.QrGrantCredential(accessToken: token))
      },
      // A token that holds, but that no code brought about.
      wrong: { .qrGrant(IdentityV1.QrGrantCredential(accessToken: tokens.accessToken)) },
      unknown: { .qrGrant(IdentityV1.QrGrantCredential(accessToken: "nobody's")) },
      secrets: { granted.all },
      isGuessable: false
    )
  }

  private static func idToken(
    _ harness: IdentityHarness, _ provider: TestProvider, _ tokens: CommonV1.TokenSet
  ) async throws -> Credentials {
    let shown = Tokens()
    let other = try P256PrivateKey()
    @Sendable func credential(
      signedBy key: P256PrivateKey? = nil, changing changes: [String: JSONValue?] = [:]
    ) async throws -> IdentityV1.IdTokenCredential {
      let nonce = try await harness.nonce()
      let token = try provider.token(nonce: nonce, at: harness.clock.now(), signedBy: key, changing: changes)
      shown.add(token)
      return IdentityV1.IdTokenCredential(idToken: token, nonce: nonce)
    }
    _ = try await harness.link(.idToken(try await credential()), tokens, password: IdentityHarness.password)
    return Credentials(
      right: { .idToken(try await credential()) },
      wrong: { .idToken(try await credential(signedBy: other)) },
      unknown: { .idToken(try await credential(changing: ["iss": "https://evil.example"])) },
      secrets: { shown.all },
      isGuessable: false,
      mask: "example"
    )
  }

  private final class Tokens: Sendable {
    private let state = Mutex<[String]>([])
    var all: [String] { state.withLock { $0 } }
    func add(_ token: String) { state.withLock { $0.append(token) } }
  }

  /// A guest on the same device, who has data.
  func guest() async throws -> CommonV1.TokenSet {
    try await harness.issueGuest(device).tokens.orThrow()
  }

  func redeem(
    _ conflict: IdentityV1.Conflict?,
    _ choice: IdentityV1.OnConflict,
    guest: CommonV1.TokenSet
  ) async throws -> IdentityV1.AuthenticateResponse {
    try await harness.auth.authenticate(
      IdentityV1.AuthenticateRequest(
        clientID: "app.test",
        guestToken: guest.accessToken,
        onConflict: choice,
        linkTicket: try conflict.orThrow().linkTicket
      )
    )
  }
}
