import Cryptography
import GRPC
import LatchkeyModel
import LatchkeyProtos

/// One device's side of Latchkey: who uses it, and the calls made in their name.
///
/// ```
///            startAsGuest                   register, signIn
///  unknown ───────────────▶ guest ─────────────────────────────▶ user
///     ▲                       ▲                                    │
///     └── signOut(next: .none) └──────── signOut(next: .guest) ────┘
/// ```
///
/// Tokens are kept in the ``SecretStore`` and never handed out. A call that finds its token expired refreshes it once,
/// however many calls find out at the same time, and is repeated once. A refresh that fails on the way keeps the
/// credential; one that the service refuses forgets it. A call that is told that its session has ended asks for a refresh
/// too, for whether that is so is identity's to say.
public actor DeviceClient {
  let configuration: ClientConfiguration
  let secrets: any SecretStore
  let clock: any WallClock
  let identity: any RPCChannel
  let qr: any RPCChannel
  let migrator: any RPCChannel
  let closing: @Sendable () async -> Void
  private let sleeping: @Sendable (Duration) async throws -> Void
  private let prover: Prover
  /// Asks the person for a proof that a service wants; nil where nobody can be asked.
  var proofAsker: (@Sendable (ProofRequest) async -> SignInCredential?)?

  /// The refresh under way of each session, by its refresh token, shared by all calls that wait for it.
  private var refreshing: [String: Task<Result<StoredSession, ClientError>, Never>] = [:]

  /// The handles of codes that were sent, by address; the newest few.
  private var codeHandles: [(address: String, handle: String)] = []

  /// Nothing is read or called until the first operation.
  package init(
    configuration: ClientConfiguration,
    secrets: any SecretStore,
    identity: any RPCChannel,
    qr: any RPCChannel,
    migrator: any RPCChannel,
    clock: any WallClock = SystemClock(),
    sleeping: @escaping @Sendable (Duration) async throws -> Void = { try await Task.sleep(for: $0) },
    closing: @escaping @Sendable () async -> Void = {}
  ) {
    self.configuration = configuration
    self.secrets = secrets
    let prover = Prover(clock: clock)
    self.prover = prover
    self.identity = ProvingChannel(identity, to: .identity, prover)
    self.qr = ProvingChannel(qr, to: .qr, prover)
    self.migrator = ProvingChannel(migrator, to: .migrator, prover)
    self.clock = clock
    self.sleeping = sleeping
    self.closing = closing
  }

  /// Who uses this device, by what the secret store holds. Needs no network.
  ///
  /// Errors: ``ClientError/secretStore(_:)`` when the store cannot tell; never ``AuthState/unknown`` in its place.
  public func authState() throws(ClientError) -> AuthState {
    guard let stored = try storedSession() else { return .unknown }
    return stored.isGuest ? .guest(stored.session) : .user(stored.session)
  }
}

// MARK: Codes

extension DeviceClient {
  func remember(codeHandle handle: String, for address: String) {
    codeHandles.removeAll { $0.address == address }
    if codeHandles.count >= Limits.codeHandles { codeHandles.removeFirst() }
    codeHandles.append((address, handle))
  }

  /// A code with the handle that it was sent under, if this client asked for it.
  func codeCredential(_ address: String, _ code: String) -> IdentityV1.OtpCredential {
    let handle = codeHandles.last { $0.address == address }?.handle
    return IdentityV1.OtpCredential(identifier: address, code: code, handle: handle ?? "")
  }
}

// MARK: Tokens

extension DeviceClient {
  /// Makes a call in the name of whoever is signed in, and once more with the proof that the service asks them for.
  ///
  /// - Parameter hasBegun: whether what the call brought was handed on; then it is not made again.
  func authorized<Answer: Sendable>(
    timeout: Duration = Limits.callTimeout,
    unless hasBegun: () -> Bool = { false },
    _ call: (CallOptions) async throws(RPCError) -> Answer
  ) async throws(ClientError) -> Answer {
    do throws(ClientError) {
      return try await attempt(timeout: timeout, unless: hasBegun, call)
    } catch {
      guard case .call(let failure) = error, failure.reason == "STEP_UP_REQUIRED", !hasBegun() else { throw error }
      guard try await stepUp(answering: failure) else { throw error }
    }
    return try await attempt(timeout: timeout, unless: hasBegun, call)
  }

  /// Makes a call in the name of whoever is signed in, with a fresh token or proof of possession where it takes one.
  func attempt<Answer: Sendable>(
    timeout: Duration = Limits.callTimeout,
    unless hasBegun: () -> Bool = { false },
    _ call: (CallOptions) async throws(RPCError) -> Answer
  ) async throws(ClientError) -> Answer {
    let session = try await usableSession()
    let reason: String?
    do throws(RPCError) {
      return try await call(options(session, timeout))
    } catch {
      reason = error.details.reason
      guard error.code == .unauthenticated, Self.isWorthAnotherTry(error) || reason == "SESSION_REVOKED",
        !hasBegun()
      else { throw ClientError(error) }
    }
    // A token may be bound to a key that was replaced since: a fresh one is bound to the new key.
    let fresh = reason == "use_dpop_nonce" ? session : try await refreshed(insteadOf: session)
    do throws(RPCError) {
      return try await call(options(fresh, timeout))
    } catch {
      // The service may have been restarted while the token was refreshed.
      guard error.details.reason == "use_dpop_nonce", reason != "use_dpop_nonce", !hasBegun() else {
        throw ClientError(error)
      }
    }
    do throws(RPCError) {
      return try await call(options(fresh, timeout))
    } catch {
      throw ClientError(error)
    }
  }

  /// With a fresh token, or with another proof: one that holds the nonce or the time that the refusal brought along, or
  /// that was not shown before, as it may have been when a connection broke.
  private static func isWorthAnotherTry(_ error: RPCError) -> Bool {
    ["TOKEN_EXPIRED", "use_dpop_nonce", "invalid_dpop_proof"].contains(error.details.reason)
  }

  /// Makes a call that needs no sign-in.
  func open<Answer: Sendable>(
    timeout: Duration = Limits.callTimeout,
    _ call: (CallOptions) async throws(RPCError) -> Answer
  ) async throws(ClientError) -> Answer {
    do throws(RPCError) {
      return try await openCall(timeout, call)
    } catch {
      throw ClientError(error)
    }
  }

  private func openCall<Answer: Sendable>(
    _ timeout: Duration,
    _ call: (CallOptions) async throws(RPCError) -> Answer
  ) async throws(RPCError) -> Answer {
    do throws(RPCError) {
      return try await call(options(nil, timeout))
    } catch {
      guard error.code == .unauthenticated, error.details.reason != "TOKEN_EXPIRED", Self.isWorthAnotherTry(error)
      else {
        throw error
      }
      return try await call(options(nil, timeout))
    }
  }

  private func options(_ session: StoredSession?, _ timeout: Duration) -> CallOptions {
    // Without its key a device still makes the calls that need none; the others are refused by the service.
    if !prover.hasKey, configuration.bindsTokens || session?.isBound == true, let record = try? deviceRecord(),
      let key = try? P256PrivateKey(pem: Array(record.privateKey.utf8))
    {
      prover.use(key)
    }
    var metadata = Metadata()
    if let session {
      prover.assume(clockSkew: session.clockSkew)
      metadata.add("authorization", "\(session.isBound ? "DPoP" : "Bearer") \(session.accessToken)")
    }
    if !configuration.appVersion.isEmpty { metadata.add("x-app-version", configuration.appVersion) }
    return CallOptions(metadata: metadata, timeout: timeout)
  }

  func sleep(_ duration: Duration) async throws(ClientError) {
    do {
      try await sleeping(duration)
    } catch {
      throw .call(CallFailure(RPCError(.cancelled, "the task was cancelled")))
    }
  }

  /// The stored session, with an access token that outlives a call.
  func usableSession() async throws(ClientError) -> StoredSession {
    guard let session = try storedSession() else { throw .signedOut }
    return session.needsRefresh(at: clock.now()) ? try await refreshed(insteadOf: session) : session
  }

  /// A newer session of the same subject than `stale`: the stored one if another call was faster, or a refreshed one.
  ///
  /// Errors: ``ClientError/overtaken`` when somebody else uses the device by now: what was begun in the name of one must
  /// not happen in the name of the other.
  func refreshed(insteadOf stale: StoredSession) async throws(ClientError) -> StoredSession {
    guard let stored = try storedSession() else { throw .signedOut }
    guard stored.sub == stale.sub else { throw .overtaken }
    if let running = refreshing[stored.refreshToken] { return try await running.value.get() }
    if stored.accessToken != stale.accessToken, !stored.needsRefresh(at: clock.now()) { return stored }
    // A task of its own: the caller that happened to be first may be cancelled, the others still want the result.
    let task = Task { () async -> Result<StoredSession, ClientError> in
      do throws(ClientError) {
        return .success(try await self.refresh(stored))
      } catch {
        return .failure(error)
      }
    }
    refreshing[stored.refreshToken] = task
    // Whoever comes before the next line runs shares the finished task's result, which is as good as new.
    let result = await task.value
    refreshing[stored.refreshToken] = nil
    return try result.get()
  }

  private func refresh(_ session: StoredSession) async throws(ClientError) -> StoredSession {
    let auth = IdentityV1.AuthServiceClient(channel: identity)
    let answer: IdentityV1.RefreshResponse
    do throws(RPCError) {
      let request = IdentityV1.RefreshRequest(refreshToken: session.refreshToken)
      // The session tells whether the call has to prove its key.
      if session.isBound { _ = options(session, Limits.callTimeout) }
      answer = try await openCall(Limits.callTimeout) { options throws(RPCError) in
        try await auth.refresh(request, options: options)
      }
    } catch {
      // Only the service's own refusal ends the session. Anything else may be the network: the credential stays.
      guard error.code == .unauthenticated, let reason = error.details.reason, Self.endsSession(reason) else {
        throw ClientError(error)
      }
      // A sign-in that happened meanwhile is not thrown away with the session that ended.
      if let stored = try storedSession(), stored.refreshToken == session.refreshToken { try forgetSession() }
      throw .sessionEnded(reason: reason)
    }
    let tokens = try require(answer.tokens, "RefreshResponse.tokens")
    var fresh = stored(tokens, sub: session.sub, isGuest: session.isGuest, namespace: session.storageNamespace)
    if fresh.sid.isEmpty { fresh.sid = session.sid }
    if fresh.scope.isEmpty { fresh.scope = session.scope }
    // Who signed out meanwhile stays signed out, and a sign-in that happened meanwhile is not undone.
    guard let stored = try storedSession() else { throw .signedOut }
    guard stored.sub == session.sub else { throw .overtaken }
    guard stored.refreshToken == session.refreshToken else { return stored }
    // Kept before it is used: a crash from here on leaves a credential that the service takes.
    try keep(fresh)
    return fresh
  }

  private static func endsSession(_ reason: String) -> Bool {
    ["REFRESH_TOKEN_INVALID", "REFRESH_TOKEN_REUSED", "SESSION_REVOKED"].contains(reason)
  }
}

// MARK: What the secret store holds

extension DeviceClient {
  func storedSession(_ slot: SessionSlot = .current) throws(ClientError) -> StoredSession? {
    guard let bytes = try read(slot.rawValue) else { return nil }
    guard let session = StoredSession(bytes) else { throw .unreadableSecret(name: slot.rawValue) }
    return session
  }

  func deviceRecord(named name: String = DeviceRecord.name) throws(ClientError) -> DeviceRecord? {
    guard let bytes = try read(name) else { return nil }
    guard let record = DeviceRecord(bytes) else { throw .unreadableSecret(name: name) }
    return record
  }

  private func read(_ name: String) throws(ClientError) -> [UInt8]? {
    do throws(SecretStoreError) { return try secrets.secret(named: name) } catch { throw .secretStore(error) }
  }

  func keep(_ session: StoredSession, _ slot: SessionSlot = .current) throws(ClientError) {
    do throws(SecretStoreError) {
      try secrets.save(session.encoded(), as: slot.rawValue)
    } catch { throw .secretStore(error) }
  }

  func keep(_ record: DeviceRecord, as name: String = DeviceRecord.name) throws(ClientError) {
    do throws(SecretStoreError) {
      try secrets.save(record.encoded(), as: name)
    } catch { throw .secretStore(error) }
    // From here on it is the new key that is proven.
    if name == DeviceRecord.name, prover.hasKey { prover.use(try privateKey(of: record)) }
  }

  func forgetSession(_ slot: SessionSlot = .current) throws(ClientError) {
    try removeSecret(slot.rawValue)
  }

  /// Keeps what a call brought in the place of the session that it was made in, if that is still there.
  ///
  /// Errors: ``ClientError/overtaken`` when another sign-in was faster; its session stays.
  func keep(_ session: StoredSession?, insteadOf before: StoredSession?) throws(ClientError) {
    if let stored = try storedSession(), stored.sid != before?.sid { throw .overtaken }
    if let session { try keep(session) } else { try forgetSession() }
  }

  func removeSecret(_ name: String) throws(ClientError) {
    do throws(SecretStoreError) { try secrets.removeSecret(named: name) } catch {
      throw .secretStore(error)
    }
  }

  /// Tokens as they came, with the clock they came by.
  func stored(_ tokens: CommonV1.TokenSet, sub: String, isGuest: Bool, namespace: String) -> StoredSession {
    let now = clock.now()
    let serverTime = tokens.serverTime.flatMap { Timestamp($0) } ?? now
    prover.note(clockSkew: serverTime - now)
    return StoredSession(
      accessToken: tokens.accessToken,
      tokenType: tokens.tokenType,
      refreshToken: tokens.refreshToken,
      accessExpiresAt: serverTime + .told(seconds: tokens.expiresIn),
      clockSkew: serverTime - now,
      sub: sub,
      isGuest: isGuest,
      sid: tokens.sid,
      storageNamespace: namespace,
      scope: tokens.scope
    )
  }

  /// What an answer must hold.
  func require<Value>(_ value: Value?, _ name: String) throws(ClientError) -> Value {
    guard let value else { throw .incompleteAnswer(name) }
    return value
  }
}

extension CallOptions {
  /// The access token that the call carries.
  var bearerToken: String? {
    guard let value = metadata["authorization"] else { return nil }
    return value.split(separator: " ", maxSplits: 1).last.map { String($0) }
  }
}
