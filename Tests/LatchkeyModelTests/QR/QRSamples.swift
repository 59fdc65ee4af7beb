@testable import LatchkeyModel

/// Values that the tests of the QR domain share. Digests stand for secrets by a number.
enum QRSamples {
  static let start = Timestamp(secondsSinceEpoch: 1_790_000_000)
  static let ticket = digest(100)

  static func digest(_ number: UInt8) -> Digest256 {
    guard let digest = Digest256([UInt8](repeating: number, count: 32)) else { preconditionFailure("32 bytes") }
    return digest
  }

  static let keys = QRSessionKeys(pollSecret: digest(1), reference: digest(2), userCode: digest(3))
  static let verifier = digest(4)
  static let id = QRSessionID(instance: 7, from: constant(9))

  /// A source that gives one byte over and over.
  static func constant(_ byte: UInt8) -> RandomSource {
    RandomSource { [UInt8](repeating: byte, count: $0) }
  }

  /// The account of that name: its first letter, 16 times.
  static func subject(_ name: String) -> SubjectID {
    guard let id = SubjectID(bytes: [UInt8](repeating: name.utf8.first ?? 0, count: 16), in: .first) else {
      preconditionFailure("16 bytes")
    }
    return id
  }

  /// The signed-in session of that name.
  static func signedIn(_ name: String) -> SessionID {
    guard let id = SessionID(bytes: [UInt8](repeating: name.utf8.first ?? 0, count: 16), in: .first) else {
      preconditionFailure("16 bytes")
    }
    return id
  }

  static func scope(_ text: String) -> Scope {
    guard let scope = Scope(text) else { preconditionFailure("a scope") }
    return scope
  }

  static func request(
    purpose: QRPurpose = .login,
    initiatorSession: SessionID? = nil,
    initiatorKey: String? = nil
  ) -> QRSessionRequest {
    guard let clientID = ClientID("latchkey-demo") else { preconditionFailure("a client id") }
    return QRSessionRequest(
      purpose: purpose,
      clientID: clientID,
      scope: scope("profile records"),
      challenge: PKCEChallenge(digest: verifier),
      initiator: QRInitiator(
        label: DisplayText("Living room"),
        platform: DisplayText("tv"),
        app: DisplayText("player"),
        address: "203.0.113.7",
        keyThumbprint: initiatorKey,
        sessionID: initiatorSession
      )
    )
  }

  static func session(_ request: QRSessionRequest = request(), lifetime: Duration = .seconds(120)) -> QRSession {
    QRSession(id: id, keys: keys, request: request, issued: start, lifetime: lifetime)
  }

  static func confirmer(
    _ subject: String = "ada",
    sessionID: String = "phone",
    isGuest: Bool = false,
    authenticated: Timestamp? = start,
    key: String? = nil
  ) -> QRConfirmer {
    QRConfirmer(
      subject: Self.subject(subject),
      sessionID: signedIn(sessionID),
      isGuest: isGuest,
      authenticated: authenticated,
      keyThumbprint: key
    )
  }

  /// A session in the named state, one second after the start.
  static func session(in state: QRSessionState, needsCheckCode: Bool = false) -> QRSession {
    let claim = QRSession.Claim(
      subject: Self.subject("ada"),
      sessionID: signedIn("phone"),
      ticket: ticket,
      ticketExpires: start + .seconds(61),
      requirements: QRRequirements(checkCode: needsCheckCode)
    )
    let grant = QRSession.Grant(scope: scope("profile"), confirmed: start + .seconds(1), proven: start)
    let phase: QRSession.Phase =
      switch state {
      case .pending: .pending
      case .scanned: .scanned(claim)
      case .confirmed: .confirmed(claim, grant)
      case .denied: .denied(claim)
      case .expired: .expired
      case .cancelled: .cancelled
      case .consumed: .consumed(claim, grant, at: start + .seconds(1))
      }
    return QRSession(
      restoring: id,
      keys: keys,
      request: request(),
      issued: start,
      expires: start + .seconds(120),
      version: 5,
      phase: phase
    )
  }
}
