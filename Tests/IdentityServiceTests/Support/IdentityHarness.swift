import Cryptography
import GRPC
import LatchkeyModel
import LatchkeyProtos
import Logging
import ServiceRuntime
import Storage
import StorageSQLite
import TestSupport
import Transfers
import TransportServer

@testable import IdentityService

/// The identity service with its real storage in a temporary folder, its real cryptography and a clock of the test's.
/// Passwords are hashed at the lowest cost that Argon2 has: what is tested is not how slow it is.
struct IdentityHarness: Sendable {
  static let password = "correct horse battery"

  static let serviceToken = ServiceToken("lks_" + String(repeating: "A", count: 43))

  static let logger = Logger(label: "identity-tests", factory: { _ in SwiftLogNoOpLogHandler() })

  let folder: TemporaryFolder
  let clock: ManualClock
  let database: SQLiteDatabase
  let policies: PolicyFile
  let rooms: IdentityRooms
  let channel: InProcessChannel
  let guests: IdentityV1.GuestServiceClient
  let auth: IdentityV1.AuthServiceClient
  let grants: IdentityV1.GrantServiceClient
  let sessions: IdentityV1.SessionServiceClient
  let devices: IdentityV1.DeviceServiceClient
  let transfers: IdentityV1.TransferServiceClient
  let links: IdentityV1.LinkServiceClient
  let accounts: IdentityV1.AccountServiceClient
  let audit: IdentityV1.AuditServiceClient
  let admin: IdentityV1.AdminServiceClient
  let guides: IdentityV1.GuideServiceClient
  let access: IdentityV1.PolicyServiceClient

  init(
    folder: TemporaryFolder? = nil,
    storage: (any IdentityStorage)? = nil,
    clock: ManualClock = ManualClock(),
    migrator: (any RPCChannel)? = nil,
    lifetimes: TokenLifetimes = TokenLifetimes(),
    guestsPerHour: Int = 1_000_000,
    codesPerHour: Int = 1_000_000,
    codesRequired: Bool = false,
    registrationsPerHour: Int = 1_000_000,
    signInsPerHour: Int = 1_000_000,
    codeSink: (any CodeSink)? = nil,
    auditRetention: Duration? = nil,
    guestLimit: Int = Limits.guests,
    auditRefusals: Int = Limits.auditRefusals,
    providers: OpenIDProviders? = nil,
    proofs: DPoPVerifier = DPoPVerifier(),
    hashing: Argon2Parameters = Argon2Parameters(memoryKiB: 64, passes: 1, lanes: 1),
    hashers: WorkerThreads = WorkerThreads(threads: 1, capacity: 64)
  ) async throws {
    let folder = try folder ?? TemporaryFolder()
    self.folder = folder
    self.clock = clock
    // Beside another storage there is nothing in it.
    let file = storage == nil ? "identity" : "empty-\(UInt64.random(in: 0...UInt64.max))"
    database = try SQLiteDatabase.open(path: "\(folder.path)/\(file).db", schema: .identity, isPatient: true)
    policies = try PolicyFile(path: "\(folder.path)/policies.json", logger: Self.logger)
    let configuration = try Self.configuration(
      folder,
      [
        "--guest-per-hour", "\(guestsPerHour)", "--otp-per-hour", "\(codesPerHour)", "--otp-required=\(codesRequired)",
        "--register-per-hour", "\(registrationsPerHour)", "--sign-in-per-hour", "\(signInsPerHour)",
        "--audit-retention", "\(auditRetention.map { $0.components.seconds } ?? 0)s", "--guest-limit", "\(guestLimit)",
        "--audit-refusals", "\(auditRefusals)", "--token-refresh-idle", "\(lifetimes.refreshIdle.components.seconds)s",
        "--token-refresh-absolute-account", "\(lifetimes.refreshAbsoluteAccount.components.seconds)s",
      ])
    rooms = try await IdentityRooms(
      configuration,
      IdentityResources(
        storage: storage ?? SQLiteIdentityStorage(database),
        passwords: PasswordHasher(parameters: hashing, workers: hashers),
        codeSink: codeSink ?? FileCodeSink(path: "\(folder.path)/otp-outbox.jsonl"),
        providers: providers
          ?? OpenIDProviders([], logger: Self.logger) { _ throws(TransferError) in
            throw TransferError("there are no providers", isRetryable: false)
          },
        proofs: proofs,
        migrator: try migrator.map { ServiceChannel($0, token: try Self.serviceToken.orThrow()) },
        policies: policies,
        surroundings: Surroundings(
          clock: clock, random: RandomSource { SecureRandom.bytes($0) }, logger: Self.logger)
      )
    )
    channel = InProcessChannel(
      routes: rooms.routes,
      interceptors: [
        rooms.upkeep.audit.refusals,
        AppVersionInterceptor(policies: policies),
        AuthenticationInterceptor(
          policies: IdentityAccess.policies,
          tokens: TokenAuthenticator(
            keys: OwnKeys { [keys = rooms.auth.tokens.keys] in keys.published },
            issuer: rooms.auth.tokens.issuer,
            audience: rooms.auth.tokens.audiences[0],
            clock: clock,
            sessions: storage == nil ? rooms.sessions.endedSessions : UntimedSessions(rooms.sessions.endedSessions)
          ),
          serviceToken: try Self.serviceToken.orThrow(),
          stepUp: StepUpPolicy(),
          proofs: proofs
        ),
      ]
    )
    guests = IdentityV1.GuestServiceClient(channel: channel)
    auth = IdentityV1.AuthServiceClient(channel: channel)
    grants = IdentityV1.GrantServiceClient(channel: channel)
    sessions = IdentityV1.SessionServiceClient(channel: channel)
    devices = IdentityV1.DeviceServiceClient(channel: channel)
    transfers = IdentityV1.TransferServiceClient(channel: channel)
    links = IdentityV1.LinkServiceClient(channel: channel)
    accounts = IdentityV1.AccountServiceClient(channel: channel)
    audit = IdentityV1.AuditServiceClient(channel: channel)
    admin = IdentityV1.AdminServiceClient(channel: channel)
    guides = IdentityV1.GuideServiceClient(channel: channel)
    access = IdentityV1.PolicyServiceClient(channel: channel)
  }

  /// The configuration that a service with these flags has.
  static func configuration(_ folder: TemporaryFolder, _ flags: [String]) throws -> IdentityConfiguration {
    let invocation = try ServiceInvocation(
      IdentityProcess.description,
      arguments: [
        "--data-dir", folder.path, "--issuer", "http://identity.test", "--token-audiences",
        "latchkey-identity,latchkey-qr",
      ] + flags,
      environment: [:]
    )
    guard case .run(let configuration) = invocation else { throw MissingValue() }
    return IdentityConfiguration(configuration)
  }

  /// What the tests look at inside.
  var core: Insides { Insides(rooms: rooms) }

  /// The same service after a restart: same folder, same clock, nothing else kept.
  func restarted(migrator channel: (any RPCChannel)? = nil) async throws -> IdentityHarness {
    await database.close()
    return try await IdentityHarness(folder: folder, clock: clock, migrator: channel)
  }

  /// Calls from another network.
  func auth(from address: String) -> IdentityV1.AuthServiceClient {
    var channel = channel
    channel.address = address
    return IdentityV1.AuthServiceClient(channel: channel)
  }

  /// Every address so far leads to its account, as if a code had shown it to be its owner's.
  func proveAddresses() async throws {
    try await database.write { db throws(StorageError) in
      _ = try db.execute("UPDATE identities SET verified_at = created_at WHERE kind IN (1, 2)")
    }
  }

  // MARK: Steps

  func challenge(for device: TestDevice) async throws -> String {
    try await guests.getChallenge(
      IdentityV1.GetChallengeRequest(clientID: device.clientID, deviceKey: device.jwk)
    ).challenge
  }

  func issueGuest(
    _ device: TestDevice, reinstalled: Bool = false, counter: Int64 = 0
  ) async throws -> IdentityV1.IssueGuestResponse {
    try await guests.issueGuest(
      device.issueRequest(try await challenge(for: device), reinstalled: reinstalled, counter: counter))
  }

  func register(
    _ identifier: String,
    guest: CommonV1.TokenSet? = nil
  ) async throws -> IdentityV1.RegisterResponse {
    try await auth.register(
      IdentityV1.RegisterRequest(
        clientID: "app.test",
        password: IdentityV1.PasswordCredential(identifier: identifier, password: Self.password),
        guestToken: guest?.accessToken ?? "",
        nickname: "Ada",
        locale: "en"
      )
    )
  }

  func signIn(
    _ identifier: String,
    password: String = Self.password,
    guest: CommonV1.TokenSet? = nil,
    onConflict: IdentityV1.OnConflict = .unspecified
  ) async throws -> IdentityV1.AuthenticateResponse {
    try await auth.authenticate(
      IdentityV1.AuthenticateRequest(
        clientID: "app.test",
        method: .password(IdentityV1.PasswordCredential(identifier: identifier, password: password)),
        guestToken: guest?.accessToken ?? "",
        onConflict: onConflict
      )
    )
  }

  func authenticate(
    _ method: IdentityV1.AuthenticateRequest.Method,
    guest: CommonV1.TokenSet? = nil,
    onConflict: IdentityV1.OnConflict = .unspecified,
    key: String? = nil,
    challenge: String = "",
    solution: [UInt8] = []
  ) async throws -> IdentityV1.AuthenticateResponse {
    try await auth.authenticate(
      IdentityV1.AuthenticateRequest(
        clientID: "app.test",
        method: method,
        guestToken: guest?.accessToken ?? "",
        onConflict: onConflict,
        challenge: challenge,
        powSolution: solution
      ),
      options: CallOptions(metadata: key.map { ["idempotency-key": $0] } ?? Metadata()))
  }

  func nonce() async throws -> String {
    try await guests.getChallenge(
      IdentityV1.GetChallengeRequest(clientID: "app.test", purpose: .idTokenNonce)
    ).challenge
  }

  func refresh(_ tokens: CommonV1.TokenSet?) async throws -> CommonV1.TokenSet {
    let answer = try await auth.refresh(IdentityV1.RefreshRequest(refreshToken: tokens?.refreshToken ?? ""))
    return try answer.tokens.orThrow()
  }

  func isActive(_ token: String) async throws -> Bool {
    try await auth.introspect(IdentityV1.IntrospectRequest(token: token), options: .service).active
  }

  func logOut(
    _ tokens: CommonV1.TokenSet?,
    scope: IdentityV1.LogoutScope = .local,
    next: IdentityV1.LogoutNext = .none
  ) async throws -> IdentityV1.LogoutResponse {
    try await auth.logout(IdentityV1.LogoutRequest(scope: scope, next: next), options: .bearer(tokens))
  }
}

extension CallOptions {
  static var service: CallOptions { CallOptions(metadata: IdentityHarness.serviceToken?.metadata ?? Metadata()) }

  static func bearer(_ tokens: CommonV1.TokenSet?) -> CallOptions {
    CallOptions(metadata: ["authorization": "Bearer \(tokens?.accessToken ?? "")"])
  }
}

extension Optional {
  /// The value, or an error that says it was missing.
  func orThrow() throws -> Wrapped {
    guard let self else { throw MissingValue() }
    return self
  }
}

struct MissingValue: Error {}

/// What an instance among others knows of ended sessions, however long ago it looked: in these tests it looks when they say.
private struct UntimedSessions: SessionAuthority {
  private let known: EndedSessions

  init(_ known: EndedSessions) { self.known = known }

  func hasEnded(_ subject: AuthenticatedSubject) -> Bool { known.hasEnded(subject) }

  func wasConfirmed(_ subject: AuthenticatedSubject) -> Bool { known.wasConfirmed(subject) }
}
