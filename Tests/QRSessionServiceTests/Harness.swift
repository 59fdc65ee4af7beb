import Cryptography
import GRPC
import Glibc
import LatchkeyModel
import LatchkeyProtos
import Logging
import ServiceRuntime
import Storage
import StorageSQLite
import Synchronization
import TestSupport
import Testing
import TransportServer

@testable import QRSessionService

/// The service over a real database in a folder of its own, with a clock that stands still until it is moved.
final class Harness: Sendable {
  let clock: ManualClock
  let grants: RecordingGrants
  let events = Mutex<[QRAuditEvent]>([])
  let api: QRSessionAPI
  let database: SQLiteDatabase
  let folder: TemporaryFolder

  static let verifier = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"
  static let challenge = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"

  convenience init(
    places: GeoFile? = nil,
    _ change: (inout QRSettings) -> Void = { _ in },
    over store: (any QRSessionStore) -> any QRSessionStore = { $0 }
  ) throws {
    try self.init(in: TemporaryFolder(), places: places, change, over: store)
  }

  init(
    in folder: TemporaryFolder,
    at time: Timestamp? = nil,
    places: GeoFile? = nil,
    clock: ManualClock = ManualClock(),
    grants: RecordingGrants = RecordingGrants(),
    shared: SharedSessions? = nil,
    cell: Cell = .first,
    _ change: (inout QRSettings) -> Void = { _ in },
    over store: (any QRSessionStore) -> any QRSessionStore = { $0 }
  ) throws {
    self.folder = folder
    self.clock = clock
    self.grants = grants
    if let time { clock.move(to: time) }
    database = try SQLiteDatabase.open(
      path: folder.file("qr.db"), schema: QRSchema.current, cells: Cells(own: cell), isPatient: true)
    var settings = QRSettings(
      verificationBase: try #require(QRVerificationBase("https://login.example")),
      clients: [try #require(ClientID("latchkey-demo"))]
    )
    change(&settings)
    let sink = EventSink()
    api = QRSessionAPI(
      settings: settings,
      store: store(SQLiteQRSessionStore(database: database)),
      shared: shared,
      grants: grants,
      places: places,
      followUpNotes: folder.file("latchkey-qr.follow-ups"),
      clock: clock,
      random: RandomSource(in: cell) { SecureRandom.bytes($0) },
      audit: QRAudit { sink.record($0) },
      logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
    )
    self.sink = sink
  }

  private let sink: EventSink

  var audited: [QRAuditEvent.Kind] { sink.events.map(\.kind) }
  var auditEvents: [QRAuditEvent] { sink.events }

  /// Another instance, beside this one, over the store that both have.
  static func instance(
    _ number: UInt16, over store: any SharedQRSessionStore, beside other: Harness? = nil,
    _ change: (inout QRSettings) -> Void = { _ in }
  ) async throws -> Harness {
    let shared = try await SharedSessions.open(
      store, others: Others(other), random: RandomSource { SecureRandom.bytes($0) })
    let harness = try Harness(
      in: TemporaryFolder(), clock: other?.clock ?? ManualClock(), grants: other?.grants ?? RecordingGrants(),
      shared: shared,
      { settings in
        settings.instance = number
        change(&settings)
      }, over: { _ in store })
    try await harness.api.load()
    return harness
  }

  /// What its tail would have told it by now.
  func hear() async throws {
    try await api.hearChanges(try #require(api.shared))
  }

  /// The same database under a new process: memory is gone, grants and clock are those of before.
  func restarted() async throws -> Harness {
    await database.close()
    let next = try Harness(in: folder, at: clock.now())
    try await next.api.load()
    return next
  }

  // MARK: - Calls

  func issue(
    _ change: (inout QRV1.IssueSessionRequest) -> Void = { _ in },
    context: ServerContext = .screen()
  ) async throws -> QRV1.IssueSessionResponse {
    var request = QRV1.IssueSessionRequest(
      clientID: "latchkey-demo",
      purpose: .login,
      scope: "profile records",
      codeChallenge: Self.challenge,
      codeChallengeMethod: "S256",
      initiator: QRV1.Initiator(label: "Living room", platform: "tv", app: "player")
    )
    change(&request)
    return try await api.issueSession(request, context: context)
  }

  func poll(
    _ issued: QRV1.IssueSessionResponse,
    verifier: String = "",
    lastVersion: Int64 = 0,
    waitMs: Int32 = 0,
    deviceProof: [UInt8] = [],
    context: ServerContext = .screen()
  ) async throws(RPCError) -> QRV1.PollSessionResponse {
    let request = QRV1.PollSessionRequest(
      deviceCode: issued.deviceCode,
      codeVerifier: verifier,
      lastVersion: lastVersion,
      waitMs: waitMs,
      deviceProof: deviceProof
    )
    return try await api.pollSession(request, context: context)
  }

  func scan(
    _ issued: QRV1.IssueSessionResponse,
    beacons: [String] = [],
    as context: ServerContext = .phone()
  ) async throws(RPCError) -> QRV1.ScanSessionResponse {
    try await api.scanSession(
      QRV1.ScanSessionRequest(code: .qrPayload(issued.qrPayload), heardBeacons: beacons),
      context: context
    )
  }

  func confirm(
    _ scanned: QRV1.ScanSessionResponse,
    checkCode: String = "",
    scope: String = "",
    proof: QRV1.ReauthProof? = nil,
    as context: ServerContext = .phone()
  ) async throws(RPCError) {
    _ = try await api.confirmSession(
      QRV1.ConfirmSessionRequest(
        confirmTicket: scanned.confirmTicket,
        checkCode: checkCode,
        scopeSubset: scope,
        reauthProof: proof
      ),
      context: context
    )
  }

  /// What a phone with this key signs when its lock was opened for what the scan showed.
  func unlock(
    _ scanned: QRV1.ScanSessionResponse,
    with key: P256PrivateKey,
    action: QRV1.Action? = nil
  ) throws -> QRV1.ReauthProof {
    let ticket = QRSessionAPI.digest(Array(scanned.confirmTicket.utf8))
    var digest = ""
    if let action = action ?? scanned.action {
      let parts = [
        "latchkey-action-v1", scanned.clientID, action.text, action.amount, action.currency, action.reference,
      ]
      digest = Base64URL.encode(SHA256Hash.hash(Array(parts.joined(separator: "\0").utf8)))
    }
    let message = ["latchkey-qr-confirm-v1", Base64URL.encode(ticket.bytes), digest].joined(separator: "\0")
    return QRV1.ReauthProof(deviceKey: .init(key.publicKey), signature: try key.sign(Array(message.utf8)))
  }

  /// What a screen with this key signs when it collects.
  func deviceProof(_ issued: QRV1.IssueSessionResponse, with key: P256PrivateKey) throws -> [UInt8] {
    try key.sign(Array("latchkey-qr-redeem-v1\0\(issued.deviceCode)".utf8))
  }

  func deny(
    _ scanned: QRV1.ScanSessionResponse,
    reportAbuse: Bool = false,
    as context: ServerContext = .phone()
  ) async throws(RPCError) {
    _ = try await api.denySession(
      QRV1.DenySessionRequest(confirmTicket: scanned.confirmTicket, reportAbuse: reportAbuse),
      context: context
    )
  }

  /// A code that was scanned and confirmed.
  func confirmed() async throws -> QRV1.IssueSessionResponse {
    let issued = try await issue()
    try await confirm(try await scan(issued))
    return issued
  }

  func stored(_ issued: QRV1.IssueSessionResponse) async throws -> QRSession {
    let secret = try #require(PollSecret(text: issued.deviceCode))
    return try #require(try await api.store.session(pollSecret: QRSessionAPI.digest(secret.bytes)))
  }
}

/// The instance that another one was made beside.
private struct Others: OtherInstances {
  let channel: (any RPCChannel)?

  init(_ harness: Harness?) {
    channel = harness.map { InProcessChannel(routes: QRV1.instanceServiceRoutes($0.api)) }
  }

  func channels() async -> [String: any RPCChannel] { channel.map { ["beside": $0] } ?? [:] }
}

private final class EventSink: Sendable {
  private let recorded = Mutex<[QRAuditEvent]>([])
  var events: [QRAuditEvent] { recorded.withLock { $0 } }
  func record(_ event: QRAuditEvent) { recorded.withLock { $0.append(event) } }
}

final class ManualClock: WallClock {
  private let time = Mutex(Timestamp(secondsSinceEpoch: 1_790_000_000))

  func now() -> Timestamp { time.withLock { $0 } }
  func move(by duration: Duration) { time.withLock { $0 = $0 + duration } }
  func move(to timestamp: Timestamp) { time.withLock { $0 = timestamp } }
}

/// Stands in for identity: numbers its grants, keeps at most one alive for a session, and can be told to fail.
final class RecordingGrants: QRGrantIssuer {
  struct State {
    var issued: [QRSession] = []
    var alive: [QRSessionID: String] = [:]
    var revoked: [QRSessionID] = []
    var failures: [RPCError] = []
    var pause: Duration?
    var maskFailure: RPCError?
    var onIssue: (@Sendable () async -> Void)?
    /// The keys of the sessions' devices, by the session's id.
    var keys: [String: String] = [:]
    /// Those of them that a code let in.
    var letIn: Set<String> = []
    var described = 0
    /// Until when each grant may take.
    var deadlines: [ContinuousClock.Instant?] = []
    /// In which turn each was asked for.
    var turns: [Int64] = []
  }

  let state = Mutex(State())

  func issue(
    _ session: QRSession, turn: Int64, deadline: ContinuousClock.Instant?
  ) async throws(RPCError) -> RedeemedGrant {
    let (failure, pause, onIssue) = state.withLock { state in
      state.deadlines.append(deadline)
      state.turns.append(turn)
      return (state.failures.isEmpty ? nil : state.failures.removeFirst(), state.pause, state.onIssue)
    }
    if let failure { throw failure }
    if let pause { try? await Task.sleep(for: pause) }
    await onIssue?()
    let token = state.withLock { state in
      state.issued.append(session)
      let token = "token-\(state.issued.count)"
      state.alive[session.id] = token
      return token
    }
    if session.request.purpose == .confirmAction {
      return RedeemedGrant(confirmation: QRV1.Confirmation(jws: token))
    }
    return RedeemedGrant(
      tokens: CommonV1.TokenSet(accessToken: token, tokenType: "Bearer", scope: session.grant?.scope.description ?? ""),
      subject: CommonV1.Subject(sub: session.claim?.subject.description ?? ""),
      profile: nil
    )
  }

  func describe(
    _ subject: SubjectID,
    session: SessionID,
    deadline: ContinuousClock.Instant?
  ) async throws(RPCError) -> SubjectDescription {
    let (failure, key, isLetIn) = state.withLock { state in
      state.described += 1
      return (
        state.maskFailure, state.keys[session.description], state.letIn.contains(session.description)
      )
    }
    if let failure { throw failure }
    return SubjectDescription(
      mask: DisplayText("\(subject.description.prefix(2))***"), deviceKeyThumbprint: key, isLetIn: isLetIn)
  }

  /// The session of that name began on the device with this key.
  func register(_ key: P256PrivateKey, session: String = "phone", isLetIn: Bool = false) {
    state.withLock { state in
      state.keys[ServerContext.id(session)] = key.publicKey.thumbprint
      if isLetIn { state.letIn.insert(ServerContext.id(session)) }
    }
  }

  func revoke(_ session: QRSessionID, reason: String) async throws(RPCError) -> Int64 {
    state.withLock { state in
      state.revoked.append(session)
      return state.alive.removeValue(forKey: session) == nil ? 0 : 1
    }
  }

  var issuedCount: Int { state.withLock { $0.issued.count } }
  var revokedCount: Int { state.withLock { $0.revoked.count } }
  func fail(_ errors: RPCError...) { state.withLock { $0.failures = errors } }
}

extension ServerContext {
  private static let method = RPCMethod(path: "/test", kind: .unary)

  /// A call of the initiating device.
  static func screen(address: String = "203.0.113.7", deadline: ContinuousClock.Instant? = nil) -> ServerContext {
    ServerContext(method: method, deadline: deadline, peer: Peer(address: address, port: 5000))
  }

  /// A call of a signed-in device. The account's and the session's ids are made from the names.
  static func phone(
    _ account: String = "ada",
    session: String = "phone",
    isGuest: Bool = false,
    authenticatedAt: Timestamp? = Timestamp(secondsSinceEpoch: 1_790_000_000),
    key: String? = nil,
    scope: String = "basic profile account",
    address: String = "203.0.113.9"
  ) -> ServerContext {
    let context = ServerContext(method: method, peer: Peer(address: address, port: 5001))
    context[CallerKey.self] = .subject(
      AuthenticatedSubject(
        subject: id(account),
        sessionID: id(session),
        isGuest: isGuest,
        scope: scope,
        clientID: "latchkey-demo",
        authenticatedAt: authenticatedAt,
        keyThumbprint: key,
        tokenID: "t",
        expiresAt: Timestamp(secondsSinceEpoch: 1_790_009_000)
      )
    )
    return context
  }

  static func id(_ name: String) -> String {
    Base64URL.encode(Array(SHA256Hash.hash(Array(name.utf8)).prefix(16)))
  }
}

/// The error that `body` ends with.
func refusal(_ body: () async throws -> Void) async -> RPCError? {
  do {
    try await body()
    return nil
  } catch {
    return error as? RPCError
  }
}

extension CommonV1.EcPublicJwk {
  init(_ key: P256PublicKey) {
    self.init(kty: "EC", crv: "P-256", x: Base64URL.encode(key.x), y: Base64URL.encode(key.y))
  }
}

/// Replaces the contents of a file, or makes it.
func overwrite(_ path: String, with text: String) throws {
  // The path lives through the call.
  let file = unsafe open(path, O_WRONLY | O_CREAT | O_TRUNC, 0o600)
  guard file >= 0 else { throw RPCError(.internal, "cannot write \(path)") }
  defer { close(file) }
  let bytes = Array(text.utf8)
  // Reads the array's own bytes and keeps nothing.
  let written = unsafe bytes.withUnsafeBytes { unsafe write(file, $0.baseAddress, $0.count) }
  guard written == bytes.count else { throw RPCError(.internal, "cannot write \(path)") }
}
