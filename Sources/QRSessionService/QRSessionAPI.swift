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

  let table: PollTable
  let gate = RedeemGate()
  let admission: Admission
  let risk: RiskAssessor
  let subjects: SubjectDescriptions
  let followUps = FollowUps()
  /// What scans of codes that are nobody's are judged by: a code that is over, of a screen that is elsewhere.
  let nobodys: QRSession
  /// The framed answer to a poll of a session as it was issued: the same for all of them.
  let untouchedAnswer: ByteBuffer

  package init(
    settings: QRSettings,
    store: any QRSessionStore,
    grants: any QRGrantIssuer,
    places: GeoFile? = nil,
    clock: any WallClock = SystemClock(),
    random: RandomSource = RandomSource { SecureRandom.bytes($0) },
    audit: QRAudit,
    logger: Logger
  ) {
    self.settings = settings
    self.store = store
    self.grants = grants
    self.clock = clock
    self.random = random
    self.audit = audit
    self.logger = logger
    failures = StorageFailureLog(logger)
    table = PollTable(now: clock.now())
    admission = Admission(settings)
    risk = RiskAssessor(settings, places: places)
    subjects = SubjectDescriptions(grants)
    nobodys = Self.nobodys(at: clock.now())
    untouchedAnswer = Self.untouchedAnswer(interval: settings.interval)
  }

  /// Reads the sessions that a restart interrupted. To be called once, before the first call is served.
  package func load() async throws(StorageError) {
    let since = clock.now() - Limits.pollRetention
    var last: QRSessionID?
    while true {
      let page = try await store.sessions(expiringAfter: since, following: last, limit: Limits.rowsPerBatch)
      for session in page { table.insert(session) }
      guard page.count == Limits.rowsPerBatch, let id = page.last?.id else { return }
      last = id
    }
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

  private static func untouchedAnswer(interval: Duration) -> ByteBuffer {
    let answer = QRV1.PollSessionResponse(
      state: .pending, version: PollEntry.untouchedVersion, interval: interval.secondsRoundedUp)
    var frame = ByteBuffer()
    do throws(RPCError) {
      try answer.encodeFrame(into: &frame)
    } catch {
      preconditionFailure("three small numbers fit a message")
    }
    return frame
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
    failures.note(error, at: clock.now())
    return RPCError(error)
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
        table.publish(session)
        return (outcome, session)
      }
      let (old, new) = (before, session)
      if try await stored({ () throws(StorageError) in try await self.store.exchange(old, for: new, at: now) }) {
        table.publish(session)
        return (outcome, session)
      }
      let again = try await stored { () throws(StorageError) in try await self.store.session(found.id) }
      guard let again else { break }
      before = again
    }
    throw RPCError(.aborted, "the session changed at the same time: try again")
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
