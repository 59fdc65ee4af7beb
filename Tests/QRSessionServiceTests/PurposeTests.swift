import Cryptography
import GRPC
import LatchkeyModel
import LatchkeyProtos
import ServiceRuntime
import Testing

@testable import QRSessionService

/// Purposes other than signing in, each attacked at what is its own.
@Suite struct PurposeTests {
  private let key: P256PrivateKey
  private let payment = QRV1.Action(text: "Pay Corner Shop", amount: "129.90", currency: "EUR", reference: "order-7")

  init() throws { key = try P256PrivateKey() }

  private func harness(_ change: (inout QRSettings) -> Void = { _ in }) throws -> Harness {
    let harness = try Harness(change)
    harness.grants.register(key)
    return harness
  }

  private func issuePayment(
    _ harness: Harness,
    _ action: QRV1.Action? = nil
  ) async throws -> QRV1.IssueSessionResponse {
    try await harness.issue {
      $0.purpose = .confirmAction
      $0.action = action ?? payment
    }
  }

  @Test("Q12: an action is shown as registered, signed over, and handed over as a confirmation without tokens")
  func action() async throws {
    let harness = try harness()
    let issued = try await issuePayment(harness)
    let scanned = try await harness.scan(issued)
    #expect(scanned.action == payment)
    #expect(scanned.purpose == .confirmAction)
    #expect(scanned.needsReauth)
    try await harness.confirm(scanned, proof: try harness.unlock(scanned, with: key))
    let poll = try await harness.poll(issued, verifier: Harness.verifier)
    #expect(poll.confirmation?.jws == "token-1")
    #expect(poll.tokens == nil && poll.subject == nil && poll.profile == nil)
    #expect(try await harness.poll(issued, verifier: Harness.verifier) == poll)
    let granted = try #require(harness.grants.state.withLock { $0.issued.first })
    #expect(granted.request.action?.amount?.decimal == "129.90")
    #expect(granted.grant?.proof?.key == key.publicKey.x + key.publicKey.y)
  }

  @Test("Q12: what was signed for another action, another ticket or by another key confirms nothing")
  func forgedProofs() async throws {
    let harness = try harness()
    let issued = try await issuePayment(harness)
    let scanned = try await harness.scan(issued)
    var dearer = payment
    dearer.amount = "9129.90"
    let other = try await harness.scan(try await issuePayment(harness, dearer))
    let thief = try P256PrivateKey()
    var swapped = try harness.unlock(scanned, with: key)
    swapped.deviceKey = .init(thief.publicKey)
    let forged = [
      try harness.unlock(scanned, with: key, action: dearer), try harness.unlock(other, with: key, action: payment),
      try harness.unlock(scanned, with: thief), swapped,
    ]
    for proof in forged {
      #expect(await refusal { try await harness.confirm(scanned, proof: proof) } == .wrongReauthProof)
    }
    #expect(await refusal { try await harness.confirm(scanned) } == .reauthenticationRequired)
    #expect(harness.audited.filter { $0 == .wrongReauthProof }.count == forged.count)
    #expect(try await harness.stored(issued).phase.state == .scanned)
    try await harness.confirm(scanned, proof: try harness.unlock(scanned, with: key))
  }

  @Test("S11, R46: a phone that a code let in signs itself no pass, and is told so when it scans")
  func signatureOfTheLetIn() async throws {
    let harness = try harness()
    harness.grants.register(key, session: "let in", isLetIn: true)
    let scanned = try await harness.scan(
      try await harness.issue { $0.scope = "basic profile account" },
      as: .phone(session: "let in", authenticatedAt: nil))
    #expect(scanned.needsReauth && scanned.needsStepUp)
    let proof = try harness.unlock(scanned, with: key)
    let letIn = ServerContext.phone(session: "let in", authenticatedAt: nil)
    #expect(await refusal { try await harness.confirm(scanned, proof: proof, as: letIn) } == .wrongReauthProof)
    #expect(
      await refusal { try await harness.confirm(scanned, as: letIn) }?.details.reason == "STEP_UP_REQUIRED")
  }

  @Test("R46: the phone learns from the scan that its owner has to prove who they are, and that its key will do")
  func announced() async throws {
    let harness = try harness()
    let (old, now) = (harness.clock.now() - .seconds(600), harness.clock.now())
    for (scope, at, needs) in [
      ("basic profile account", old, true), ("basic profile account", now, false), ("basic profile", old, false),
    ] {
      let phone = ServerContext.phone(authenticatedAt: at)
      let scanned = try await harness.scan(try await harness.issue { $0.scope = scope }, as: phone)
      #expect(scanned.needsReauth == needs, "\(scope)")
      #expect(!scanned.needsStepUp)
      let proof = needs ? try harness.unlock(scanned, with: key) : nil
      try await harness.confirm(scanned, proof: proof, as: phone)
    }
  }

  @Test("Q12: a fresh sign-in does not stand in for the signature over an action")
  func actionNeedsSignature() async throws {
    let harness = try harness { $0.confirm.maximumAuthenticationAge = .seconds(300) }
    let scanned = try await harness.scan(try await issuePayment(harness))
    let fresh = ServerContext.phone(authenticatedAt: harness.clock.now())
    #expect(await refusal { try await harness.confirm(scanned, as: fresh) } == .reauthenticationRequired)
  }

  @Test("Q12: an action that could not be shown as meant is refused by field, and belongs to its purpose alone")
  func badActions() async throws {
    let harness = try harness()
    let bad: [(QRV1.Action, String)] = [
      (QRV1.Action(text: ""), "action.text"),
      (QRV1.Action(text: "two\nlines"), "action.text"),
      (QRV1.Action(text: "hidden \u{202E}text"), "action.text"),
      (QRV1.Action(text: String(repeating: "x", count: 121)), "action.text"),
      (QRV1.Action(text: "Pay", amount: "1"), "action.currency"),
      (QRV1.Action(text: "Pay", currency: "EUR"), "action.amount"),
      (QRV1.Action(text: "Pay", amount: "-1", currency: "EUR"), "action.amount"),
      (QRV1.Action(text: "Pay", amount: "01", currency: "EUR"), "action.amount"),
      (QRV1.Action(text: "Pay", amount: "1.", currency: "EUR"), "action.amount"),
      (QRV1.Action(text: "Pay", amount: "1e9", currency: "EUR"), "action.amount"),
      (QRV1.Action(text: "Pay", amount: "1", currency: "eur"), "action.currency"),
      (QRV1.Action(text: "Pay", amount: "1", currency: "XQZ"), "action.currency"),
      (QRV1.Action(text: "Pay 1  or more"), "action.text"),
      (QRV1.Action(text: "\u{3164}"), "action.text"),
      (QRV1.Action(text: "Pay", reference: "a b"), "action.reference"),
    ]
    for (action, field) in bad {
      let error = await refusal { _ = try await issuePayment(harness, action) }
      #expect(error?.code == .invalidArgument)
      #expect(error?.details.fieldViolations.first?.field == field)
    }
    #expect(await refusal { _ = try await harness.issue { $0.purpose = .confirmAction } }?.code == .invalidArgument)
    #expect(await refusal { _ = try await harness.issue { $0.action = payment } }?.code == .invalidArgument)
  }

  @Test("S29: nothing that cannot be seen gets onto a phone's confirm screen, and an amount has its currency's digits")
  func nothingInvisible() async throws {
    let harness = try harness()
    let hidden = [
      "\u{200D}", "\u{200C}", "\u{FE0F}", "\u{FE0E}", "\u{FE00}", "\u{E0100}", "\u{FFFC}", "\u{2060}", "\u{378}",
    ]
    for mark in hidden {
      for text in ["Pay 1\(mark)00 EUR", "Pay 👩\(mark)💻"] {
        let error = await refusal { _ = try await issuePayment(harness, QRV1.Action(text: text)) }
        #expect(error?.details.fieldViolations.first?.field == "action.text", "\(mark.unicodeScalars)")
      }
      for (field, change) in [
        ("initiator.label", { $0.label = "Living\(mark)room" }), ("initiator.platform", { $0.platform = "t\(mark)v" }),
        ("initiator.app", { $0.app = "play\(mark)er" }),
      ] as [(String, (inout QRV1.Initiator) -> Void)] {
        let error = await refusal { _ = try await harness.issue { if $0.initiator != nil { change(&$0.initiator!) } } }
        #expect(error?.details.fieldViolations.first?.field == field, "\(mark.unicodeScalars)")
      }
    }
    for (amount, currency) in [
      ("1.5", "JPY"), ("1.50", "KRW"), ("1.5", "EUR"), ("1.505", "EUR"), ("1.50", "KWD"), ("1.5000", "TND"),
    ] {
      let action = QRV1.Action(text: "Pay", amount: amount, currency: currency)
      let error = await refusal { _ = try await issuePayment(harness, action) }
      #expect(error?.details.fieldViolations.first?.field == "action.amount", "\(amount) \(currency)")
    }
    for (amount, currency) in [("150", "JPY"), ("1.50", "EUR"), ("1", "EUR"), ("1.505", "KWD")] {
      _ = try await issuePayment(harness, QRV1.Action(text: "Pay", amount: amount, currency: currency))
    }
  }

  @Test("Q12: an action and its signature survive a restart at every step")
  func actionAcrossRestarts() async throws {
    var harness = try harness()
    func restart() async throws {
      harness = try await harness.restarted()
      harness.grants.register(key)
    }
    let issued = try await issuePayment(harness)
    try await restart()
    let scanned = try await harness.scan(issued)
    #expect(scanned.action == payment)
    try await restart()
    try await harness.confirm(scanned, proof: try harness.unlock(scanned, with: key))
    try await restart()
    #expect(try await harness.poll(issued, verifier: Harness.verifier).confirmation != nil)
    let granted = try #require(harness.grants.state.withLock { $0.issued.first })
    #expect(granted.grant?.proof?.key == key.publicKey.x + key.publicKey.y)
    #expect(granted.request.action?.reference == "order-7")
  }

  @Test("Q12, S3: a bound device collects only with its key's signature over its own code")
  func bindDevice() async throws {
    let harness = try harness()
    let screen = try P256PrivateKey()
    let bind = { (request: inout QRV1.IssueSessionRequest) in
      request.purpose = .bindDevice
      request.deviceKey = .init(screen.publicKey)
    }
    #expect(await refusal { _ = try await harness.issue { $0.purpose = .bindDevice } }?.code == .invalidArgument)
    let issued = try await harness.issue(bind)
    let another = try await harness.issue(bind)
    try await harness.confirm(try await harness.scan(issued))
    let thief = try P256PrivateKey()
    let refused: [[UInt8]] = [
      [], try harness.deviceProof(issued, with: thief), try harness.deviceProof(another, with: screen),
    ]
    for proof in refused {
      let error = await refusal {
        _ = try await harness.poll(issued, verifier: Harness.verifier, deviceProof: proof)
      }
      #expect(error?.code == .invalidArgument)
    }
    #expect(harness.grants.issuedCount == 0)
    let proof = try harness.deviceProof(issued, with: screen)
    #expect(try await harness.poll(issued, verifier: Harness.verifier, deviceProof: proof).tokens != nil)
    #expect(harness.audited.filter { $0 == .wrongDeviceProof }.count == 2)
  }

  @Test("S11, R34: who may confirm what", arguments: QRPurpose.allCases)
  func matrix(purpose: QRPurpose) {
    #expect(purpose.allowsGuest == (purpose == .transferGuest))
    #expect(purpose.needsDeviceKey == (purpose == .bindDevice || purpose == .transferGuest))
    #expect(purpose.needsSignature == (purpose == .confirmAction))
    #expect(purpose.refusesSameDevice == (purpose != .confirmAction))
    #expect(QRPurpose(name: purpose.name) == purpose)
  }

  @Test("S21: a phone whose session began with the key that shows the code is the same device")
  func sameDeviceBySession() async throws {
    let harness = try harness()
    let issued = try await harness.issue { $0.deviceKey = .init(key.publicKey) }
    #expect(await refusal { _ = try await harness.scan(issued) } == .sameDevice)
    _ = try await harness.scan(issued, as: .phone(session: "tablet"))
  }

  @Test("Q2: a code that takes another's place cancels it, unless a phone has claimed it")
  func supersede() async throws {
    let harness = try harness()
    let first = try await harness.issue()
    let second = try await harness.issue { $0.supersedes = first.deviceCode }
    #expect(try await harness.stored(first).phase == .cancelled)
    #expect(await refusal { _ = try await harness.scan(first) } == .noSuchCode)
    _ = try await harness.scan(second)
    #expect(await refusal { _ = try await harness.issue { $0.supersedes = second.deviceCode } } == .codeClaimed)
    #expect(try await harness.stored(second).phase.state == .scanned)
    // One that nobody remembers is in nobody's way.
    _ = try await harness.issue { $0.supersedes = Base64URL.encode([UInt8](repeating: 1, count: 32)) }
    #expect(await refusal { _ = try await harness.issue { $0.supersedes = "x" } }?.code == .invalidArgument)
  }

  @Test("S13, S25: a code that another takes the place of is on no screen any more, and in the audit log")
  func supersedeMakesRoom() async throws {
    let harness = try Harness { $0.outstandingCodes = 2 }
    var shown = try await harness.issue()
    // The next code is counted before the one that it replaces is given back.
    for _ in 0..<5 { shown = try await harness.issue { [shown] in $0.supersedes = shown.deviceCode } }
    #expect(harness.audited.filter { $0 == .cancelled }.count == 5)
    _ = try await harness.issue()
    #expect(await refusal { _ = try await harness.issue() }?.code == .resourceExhausted)
  }
}
