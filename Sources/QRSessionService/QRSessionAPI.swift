import Cryptography
import GRPC
import LatchkeyModel
import LatchkeyProtos
import Logging
import NIOCore
import ServiceRuntime
import Storage

/// The QR service: sessions in storage, their pollers in memory, grants from identity.
///
/// Each RPC is in a file of its name under `Methods/`.
package final class QRSessionAPI: QRV1.QrSessionService {
  let settings: QRSettings
  let store: any QRSessionStore
  let grants: any QRGrantIssuer
  let clock: any WallClock
  let random: RandomSource
  let audit: QRAudit
  let logger: Logger
  private let failures: StorageFailureLog
  /// Of the sessions and codes that are made here.
  var cell: Cell { random.cell }

  let table: PollTable
  let gate = RedeemGate()
  let admission: Admission
  let risk: RiskAssessor
  let subjects: SubjectDescriptions
  let followUps: FollowUps
  /// Nil where this instance is the only one.
  let shared: SharedSessions?
  /// What scans of codes that are nobody's are judged by: a code that is over, of a screen that is elsewhere.
  let nobodys: QRSession
  /// The framed answer to a poll of a session as it was issued: the same for all of them.
  let untouchedAnswer: [UInt8]

  /// - Parameter followUpNotes: a file for what a call leaves to be done after its answer; nil where that may be lost with
  ///   the process.
  package init(
    settings: QRSettings,
    store: any QRSessionStore,
    shared: SharedSessions? = nil,
    instances: InstanceCount = .one,
    grants: any QRGrantIssuer,
    places: GeoFile? = nil,
    followUpNotes: String? = nil,
    clock: any WallClock = SystemClock(),
    random: RandomSource = RandomSource { SecureRandom.bytes($0) },
    audit: QRAudit,
    logger: Logger
  ) {
    self.settings = settings
    self.store = store
    self.shared = shared
    self.grants = grants
    self.clock = clock
    self.random = random
    self.audit = audit
    self.logger = logger
    failures = StorageFailureLog(logger)
    let notes = followUpNotes.flatMap { FollowUpNotes(path: $0) }
    if followUpNotes != nil, notes == nil {
      logger.warning("codes that are passed around may be lost with the process: no notes can be written of them")
    }
    followUps = FollowUps(notes: notes)
    table = PollTable(now: clock.now())
    admission = Admission(settings, guesses: store.guesses, among: instances)
    risk = RiskAssessor(settings, places: places)
    subjects = SubjectDescriptions(grants)
    nobodys = Self.nobodys(at: clock.now())
    untouchedAnswer = Self.untouchedAnswer(interval: settings.interval)
  }

  /// Reads the sessions that a restart interrupted: of several instances', its own, for others are read when they are
  /// asked for. To be called once, before the first call is served.
  package func load() async throws(StorageError) {
    // What changes from here on is heard of; what changed before is in the rows.
    try await shared?.tail.start()
    let since = clock.now() - Limits.pollRetention
    var last = shared.flatMap { _ in QRSessionID.last(before: settings.instance, in: cell) }
    while true {
      let page = try await store.sessions(expiringAfter: since, following: last, limit: Limits.rowsPerBatch)
      // Of several instances' sessions only its own are kept here from the start.
      let own = page.prefix(while: { shared == nil || $0.id.instance == settings.instance })
      for session in own { table.insert(session) }
      guard own.count == Limits.rowsPerBatch, let id = own.last?.id else { break }
      last = id
    }
    try await finishFollowUps()
  }

  /// Does what a process that died left undone. A code lives for a few minutes: what the store has no time for now is tried
  /// again while it matters.
  private func finishFollowUps() async throws(StorageError) {
    var left = followUps.left
    for round in 1...Limits.followUpRounds where !left.isEmpty {
      if round > 1 { try? await Task.sleep(for: Limits.followUpPause) }
      var failed: [QRSessionID] = []
      for id in left {
        guard let session = try await store.session(id) else { continue }
        do throws(RPCError) { try await cancel(session) } catch { failed.append(id) }
      }
      left = failed
    }
    for id in left {
      logger.error("a code that is passed around was not cancelled", metadata: ["qr_session_id": "\(id)"])
    }
    followUps.done()
  }

  // MARK: - For the methods

  private static func nobodys(at now: Timestamp) -> QRSession {
    guard let client = ClientID("nobody") else { preconditionFailure("six letters are a client id") }
    let hash = digest([])
    return QRSession(
      restoring: QRSessionID(instance: 0, from: RandomSource { [UInt8](repeating: 0, count: $0) }),
      keys: QRSessionKeys(pollSecret: hash, reference: hash, userCode: hash),
      request: QRSessionRequest(
        purpose: .login, clientID: client, scope: .screen, challenge: PKCEChallenge(digest: hash),
        // Of the addresses for documentation (RFC 5737).
        initiator: QRInitiator(label: nil, platform: nil, app: nil, address: "192.0.2.1")),
      issued: now,
      expires: now,
      version: 1,
      phase: .cancelled
    )
  }

  private static func untouchedAnswer(interval: Duration) -> [UInt8] {
    let answer = QRV1.PollSessionResponse(
      state: .pending, version: PollEntry.untouchedVersion, interval: interval.secondsRoundedUp)
    var frame = ByteBuffer()
    do throws(RPCError) {
      try answer.encodeFrame(into: &frame)
    } catch {
      preconditionFailure("three small numbers fit a message")
    }
    return Array(frame.readableBytesView)
  }

  static func digest(_ bytes: [UInt8]) -> Digest256 {
    guard let digest = Digest256(SHA256Hash.hash(bytes)) else { preconditionFailure("SHA-256 gives 32 bytes") }
    return digest
  }

  /// Runs a storage operation, and logs why it failed: the caller is told less.
  func stored<Value: Sendable>(
    _ operation: () async throws(StorageError) -> Value
  ) async throws(RPCError) -> Value {
    do throws(StorageError) {
      return try await operation()
    } catch {
      throw refusal(error)
    }
  }

  /// What the caller is told of a storage failure.
  func refusal(_ error: StorageError) -> RPCError {
    note(error)
    return RPCError(error)
  }

  func note(_ error: StorageError) {
    failures.note(error, at: clock.now())
  }

  /// Decides on the stored session and stores what the decision made of it; decides again if somebody was faster.
  /// What is returned is durable and published.
  func decide<Outcome: Sendable>(
    on found: QRSession,
    _ decision: (inout QRSession, Timestamp) -> Outcome
  ) async throws(RPCError) -> (outcome: Outcome, session: QRSession) {
    var before = found
    for _ in 0..<Limits.exchangeAttempts {
      let now = clock.now()
      var session = before
      let outcome = decision(&session, now)
      guard session.version != before.version else {
        // The answer tells of what is stored, so no later poll may know less: whoever stored it may not have come to
        // publish it yet.
        show(session)
        return (outcome, session)
      }
      let isStored = try await exchanged(before, for: session, at: now)
      if isStored == true {
        tell(session)
        return (outcome, session)
      }
      let again = try await stored { () throws(StorageError) in try await self.store.session(found.id) }
      guard let again else { break }
      if isStored == nil, again == session {
        tell(session)
        return (outcome, session)
      }
      before = again
    }
    throw RPCError(.aborted, "the session changed at the same time: try again")
  }

  /// False when somebody was faster. Nil when the storage did not say: what is read next tells.
  func exchanged(
    _ before: QRSession, for session: QRSession, at now: Timestamp
  ) async throws(RPCError) -> Bool? {
    do throws(StorageError) {
      return try await store.exchange(before, for: session, at: now)
    } catch {
      let refusal = refusal(error)
      guard error.fault == .outcomeUnknown else { throw refusal }
      return nil
    }
  }

  func record(
    _ kind: QRAuditEvent.Kind,
    _ session: QRSession,
    subject: SubjectID? = nil,
    address: String = ""
  ) {
    audit.record(
      QRAuditEvent(
        kind: kind,
        at: clock.now(),
        session: session.id,
        codeHash: Self.hexadecimal(session.keys.reference.words.0),
        subject: subject,
        address: address,
        clientID: session.request.clientID
      )
    )
  }

  private static func hexadecimal(_ word: UInt64) -> String {
    let digits = String(word, radix: 16)
    return String(repeating: "0", count: 16 - digits.count) + digits
  }
}
