import LatchkeyModel
import Storage
import StorageMemory
import Synchronization
import TestSupport

@testable import Domain

/// Identity's rules over an engine, with a clock and a chance of the test's own.
final class World: Sendable {
  let clock = ManualClock()
  let storage: any IdentityStorage
  let domain: IdentityDomain
  let heard = Heard()
  private let random: Mutex<SeededRandom>
  /// Where the engine keeps its files, for as long as there is the world.
  private let folder: TemporaryFolder?

  /// Everything that listeners were told.
  final class Heard: SessionListener {
    let all = Mutex<[SessionChanges]>([])

    func sessionsChanged(_ changes: SessionChanges) { all.withLock { $0.append(changes) } }

    var ended: [EndedSession] { all.withLock { $0.flatMap(\.ended) } }

    var began: [Session] { all.withLock { $0.flatMap(\.began) } }
  }

  init(seed: UInt64 = 1, storage: any IdentityStorage = MemoryIdentityStorage(), in folder: TemporaryFolder? = nil) {
    self.folder = folder
    self.storage = storage
    random = Mutex(SeededRandom(seed: seed))
    domain = IdentityDomain(storage, audit: Self.chain, listeners: [heard])
  }

  static let chain = AuditChain { message in
    var link = [UInt8](repeating: 0, count: 32)
    for (index, byte) in message.enumerated() { link[index % 32] = link[index % 32] &* 31 &+ byte }
    return link
  }

  var now: Timestamp { clock.now() }
  let lifetimes = TokenLifetimes()
  var source: RandomSource { RandomSource { [self] count in random.withLock { $0.bytes(count) } } }

  func id<ID: OpaqueID>(_ type: ID.Type = ID.self) -> ID { ID(from: source) }

  func below(_ bound: Int) -> Int { random.withLock { Int.random(in: 0..<bound, using: &$0) } }

  func challenge() -> UsedChallenge { UsedChallenge(hash: source.bytes(32), expiry: now + .seconds(300)) }

  func draft(_ method: SignInMethod) throws -> SessionDraft {
    SessionDraft(
      client: try ClientID("com.example.app").orThrow(), method: method, address: "192.0.2.1", lifetimes: lifetimes,
      at: now, random: source)
  }

  func device(_ key: String) throws -> DeviceRegistration {
    DeviceRegistration(
      keyThumbprint: key, publicKeyX: [1], publicKeyY: [2],
      deviceID: try DeviceID("01234567-89ab-4cde-8f01-23456789abcd").orThrow())
  }

  // MARK: What people do

  func startGuest(
    _ key: String, counter: Int64 = 0, challenge: UsedChallenge? = nil, mayBeNew: Bool = true
  ) async throws -> StartGuest.Outcome {
    try await domain.perform(
      StartGuest(
        device: try device(key), challenge: challenge ?? self.challenge(), newSubject: id(), locale: nil,
        counter: counter, draft: try draft(.guest), mayBeNew: mayBeNew))
  }

  func guest(_ key: String) async throws -> Session {
    guard case .started(let guest) = try await startGuest(key) else { throw Unexpected() }
    return guest.session
  }

  func register(_ name: String, guest: SessionID? = nil, replay: SignIn.Replay? = nil) async throws -> Register.Outcome
  {
    try await domain.perform(
      Register(
        identifier: try AccountIdentifier(name).orThrow(), secretHash: "hash of \(name)", nickname: nil, locale: nil,
        newSubject: id(), guestSession: guest, draft: try draft(.password), source: "192.0.2.1", replay: replay))
  }

  func account(_ name: String, guest: SessionID? = nil) async throws -> SignedIn {
    guard case .registered(let signedIn) = try await register(name, guest: guest) else { throw Unexpected() }
    return signedIn
  }

  /// The session of a new account on a device that was a guest's.
  func account(_ name: String, on key: String) async throws -> Session {
    try await account(name, guest: try await guest(key).id).session
  }

  func signIn(
    _ name: String, as account: SubjectID, hash: String? = nil, guest: SignIn.Guest? = nil,
    replay: SignIn.Replay? = nil,
    challenge: UsedChallenge? = nil
  ) async throws -> SignIn.Outcome {
    let identifier = try AccountIdentifier(name).orThrow()
    return try await domain.perform(
      SignIn(
        proof: .password(account: account, identifier: identifier, hash: hash ?? "hash of \(name)"), guest: guest,
        draft: try draft(.password), challenge: challenge, source: "192.0.2.1", replay: replay))
  }

  func refresh(_ session: SessionID, _ generation: Int64, isGenuine: Bool = true) async throws -> Refresh.Outcome {
    try await domain.refresh(
      Refresh(session: session, generation: generation, lifetimes: lifetimes, at: now) { _ in isGenuine })
  }

  func replay() -> SignIn.Replay { SignIn.Replay(key: source.bytes(32), expiry: now + .seconds(60)) }

  /// A code that was sent and is not spent.
  func code() async throws -> OneTimeCode {
    let code = OneTimeCode(
      identifierHash: source.bytes(32), codeHash: source.bytes(32), handleHash: source.bytes(32))
    let stored = StoredCode(
      code: code, share: "known", expiry: now + .seconds(300), attemptsLeft: 5, elsewhereLeft: 0, sentAt: now,
      windowBeganAt: now, sends: 1)
    try await write { rows throws(StorageError) in try await rows.codes.put(stored) }
    return code
  }

  // MARK: What is stored

  func read<Value: Sendable>(
    _ body: @escaping @Sendable (any IdentityTransaction) async throws(StorageError) -> Value
  ) async throws -> Value {
    try await storage.read(Work(body: body))
  }

  func write(
    _ body: @escaping @Sendable (any IdentityTransaction) async throws(StorageError) -> Void
  ) async throws {
    try await storage.write(Work(body: body))
  }

  /// What is on record of a kind, in its order.
  func notes(_ kind: AuditNote.Kind) async throws -> [AuditNote] {
    let events = try await read { rows throws(StorageError) in
      try await rows.audit.events(after: 0, of: nil, limit: 10_000)
    }
    return events.map(\.note).filter { $0.kind == kind }
  }

  func session(_ id: SessionID) async throws -> Session? {
    try await read { rows throws(StorageError) in try await rows.sessions.find(id) }
  }

  func isLive(_ id: SessionID) async throws -> Bool { try await session(id)?.isLive(at: now) == true }

  private struct Work<Value: Sendable>: IdentityOperation {
    static var name: String { "test" }

    let body: @Sendable (any IdentityTransaction) async throws(StorageError) -> Value

    func run(in rows: some IdentityTransaction) async throws(StorageError) -> Value { try await body(rows) }
  }
}

struct Unexpected: Error {}

extension Optional {
  func orThrow() throws -> Wrapped {
    guard let self else { throw Unexpected() }
    return self
  }
}

extension CountAttempt.Outcome {
  /// Nil for a try that has to wait.
  var counted: CountedAttempt? { if case .allowed(let counted) = self { counted } else { nil } }
}
