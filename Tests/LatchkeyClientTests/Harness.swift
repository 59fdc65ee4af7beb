import Cryptography
import GRPC
import Glibc
import LatchkeyClient
import LatchkeyModel
import LatchkeyProtos
import Logging
import ServiceRuntime
import StorageSQLite
import Synchronization
import TestSupport
import Transfers

@testable import IdentityService

/// A device with its secret store, and the identity service with its storage, in a temporary folder and this process.
final class Harness: Sendable {
  static let refresh = "/latchkey.identity.v1.AuthService/Refresh"
  static let introspect = "/latchkey.identity.v1.AuthService/Introspect"
  static let issueGuest = "/latchkey.identity.v1.GuestService/IssueGuest"
  static let resolveClone = "/latchkey.identity.v1.DeviceService/ResolveClone"
  static let expired = RPCError(.unauthenticated, "the token expired", reason: "TOKEN_EXPIRED")

  let folder: TemporaryFolder
  let store: FaultySecretStore
  /// The device's clock.
  let clock = ManualClock()
  /// The service's clock.
  let serviceClock = ManualClock()
  let channel: LoopbackChannel
  let rooms: IdentityRooms

  /// - Parameters:
  ///   - proofs: decides about proofs of possession.
  ///   - signInsPerHour: beyond these a network does work.
  ///   - codeSink: takes one-time codes; nil for the development file.
  init(
    proofs: DPoPVerifier = DPoPVerifier(), signInsPerHour: Int = 1_000_000, codeSink: (any CodeSink)? = nil
  ) async throws {
    folder = try TemporaryFolder()
    store = FaultySecretStore(FileSecretStore(directory: "\(folder.path)/profile"))
    let invocation = try ServiceInvocation(
      IdentityProcess.description,
      arguments: [
        "--data-dir", folder.path, "--issuer", "http://identity.test", "--token-audiences", "latchkey-identity",
        "--guest-per-hour", "1000000", "--otp-per-hour", "\(signInsPerHour)", "--register-per-hour",
        "\(signInsPerHour)",
        "--sign-in-per-hour", "\(signInsPerHour)",
      ],
      environment: [:]
    )
    guard case .run(let configuration) = invocation else { throw CannotStart() }
    let logger = Logger(label: "client-tests", factory: { _ in SwiftLogNoOpLogHandler() })
    let rooms = try await IdentityRooms(
      IdentityConfiguration(configuration),
      IdentityResources(
        storage: SQLiteIdentityStorage(
          SQLiteDatabase.open(path: "\(folder.path)/identity.db", schema: .identity, isPatient: true)),
        passwords: PasswordHasher(parameters: Argon2Parameters(memoryKiB: 64, passes: 1, lanes: 1)),
        codeSink: codeSink ?? FileCodeSink(path: "\(folder.path)/otp-outbox.jsonl"),
        providers: OpenIDProviders([], logger: logger) { _ throws(TransferError) in
          throw TransferError("there are no providers", isRetryable: false)
        },
        proofs: proofs,
        migrator: nil,
        policies: PolicyFile(path: "\(folder.path)/policies.json", logger: logger),
        surroundings: Surroundings(
          clock: serviceClock, random: RandomSource { SecureRandom.bytes($0) }, logger: logger)
      )
    )
    self.rooms = rooms
    guard let serviceToken = ServiceToken("lks_" + String(repeating: "A", count: 43)) else { throw CannotStart() }
    channel = LoopbackChannel(
      rooms.routes,
      interceptors: [
        AuthenticationInterceptor(
          policies: IdentityAccess.policies,
          tokens: TokenAuthenticator(
            keys: OwnKeys { [keys = rooms.auth.tokens.keys] in keys.published },
            issuer: rooms.auth.tokens.issuer,
            audience: rooms.auth.tokens.audiences[0],
            clock: serviceClock,
            sessions: rooms.sessions.endedSessions
          ),
          serviceToken: serviceToken,
          stepUp: StepUpPolicy(),
          proofs: proofs
        )
      ]
    )
  }

  struct CannotStart: Error {}

  /// A fresh start of the app on this device, with a clock that may be wrong by `skew`.
  func device(skew: Duration = .zero, bindsTokens: Bool = false) -> DeviceClient {
    DeviceClient(
      configuration: ClientConfiguration(
        clientID: "test-app", bindsTokens: bindsTokens, qrBase: "https://login.example"),
      secrets: store,
      identity: channel,
      qr: channel,
      migrator: channel,
      clock: SkewedClock(clock, skew)
    )
  }

  /// An account that somebody made on another device.
  static func account(on channel: LoopbackChannel) async throws -> (name: String, password: String) {
    let account = ("ada@example.com", "correct horse battery")
    let request = IdentityV1.RegisterRequest(
      clientID: "test-app", password: IdentityV1.PasswordCredential(identifier: account.0, password: account.1))
    _ = try await IdentityV1.AuthServiceClient(channel: channel).register(request)
    return account
  }

  func startGuest() async throws -> GuestStart {
    try await device().startAsGuest(DeviceDescription(label: "test"))
  }

  /// Time passes for both.
  func advance(by duration: Duration) {
    clock.advance(by: duration)
    serviceClock.advance(by: duration)
  }

  /// The service calls every access token expired that it has issued so far, while the device believes in them.
  func expireAccessToken() {
    // The 15 minutes that a token lives, and the minute that a verifier may be lenient.
    serviceClock.advance(by: .seconds(15 * 60 + 61))
  }

  /// How often the device asked for new tokens.
  var refreshes: Int { channel.calls.count { $0 == Self.refresh } }
}

struct SkewedClock: WallClock {
  let clock: ManualClock
  let skew: Duration

  init(_ clock: ManualClock, _ skew: Duration) {
    self.clock = clock
    self.skew = skew
  }

  func now() -> Timestamp { clock.now() + skew }
}
