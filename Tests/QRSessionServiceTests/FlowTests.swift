import Cryptography
import GRPC
import LatchkeyModel
import LatchkeyProtos
import ServiceRuntime
import Storage
import StorageSQLite
import Testing

@testable import QRSessionService

@Suite struct FlowTests {
  @Test("Q1: the first device gets a code of its own, with everything that it shows")
  func issue() async throws {
    let harness = try Harness()
    let first = try await harness.issue()
    let second = try await harness.issue()
    #expect(first.deviceCode.utf8.count == 43)
    #expect(first.userCode.utf8.count == 9)
    #expect(first.verificationURI == "https://login.example/q")
    #expect(first.verificationURIComplete == first.qrPayload)
    #expect(first.expiresIn == 120)
    #expect(first.interval == 5)
    #expect(first.deviceCode != second.deviceCode)
    #expect(first.qrPayload != second.qrPayload)
    #expect(first.userCode != second.userCode)
  }

  @Test("Q5, Q7: scan, confirm, and the waiting screen gets tokens of its own")
  func wholeFlow() async throws {
    let harness = try Harness()
    let issued = try await harness.issue()
    let pending = try await harness.poll(issued)
    #expect(pending.state == .pending)
    #expect(pending.tokens == nil)

    let scanned = try await harness.scan(issued)
    #expect(scanned.initiator == QRV1.Initiator(label: "Living room", platform: "tv", app: "player"))
    #expect(scanned.purpose == .login)
    #expect(scanned.clientID == "latchkey-demo")
    #expect(scanned.scope == "profile records")
    #expect(scanned.expiresIn == 60)
    let claimed = try await harness.poll(issued)
    #expect(claimed.state == .scanned)
    #expect(claimed.version > pending.version)
    #expect(claimed.tokens == nil)

    try await harness.confirm(scanned)
    let seen = try await harness.poll(issued)
    #expect(seen.state == .confirmed)
    #expect(seen.tokens == nil)
    let redeemed = try await harness.poll(issued, verifier: Harness.verifier)
    #expect(redeemed.state == .confirmed)
    #expect(redeemed.tokens?.accessToken == "token-1")
    #expect(redeemed.subject?.sub == ServerContext.id("ada"))
    #expect(try await harness.poll(issued).state == .consumed)
    #expect(harness.audited == [.issued, .scanned, .confirmed, .redeemed])
  }

  @Test("Q7: a waiting poll is answered by the scan, the next by the confirmation", .timeLimit(.minutes(1)))
  func longPoll() async throws {
    let harness = try Harness()
    let issued = try await harness.issue()
    let first = try await harness.poll(issued, waitMs: 20_000)
    #expect(first.state == .pending)

    async let waitingForScan = harness.poll(issued, lastVersion: first.version, waitMs: 20_000)
    try await harness.someoneWaits()
    let scanned = try await harness.scan(issued)
    let second = try await waitingForScan
    #expect(second.state == .scanned)

    async let waitingForTokens = harness.poll(
      issued,
      verifier: Harness.verifier,
      lastVersion: second.version,
      waitMs: 20_000
    )
    try await harness.someoneWaits()
    try await harness.confirm(scanned)
    #expect(try await waitingForTokens.tokens?.accessToken == "token-1")
  }

  @Test("S8, Q11: the phone is told what a code that asks for nothing in particular would allow, and may narrow it")
  func usualScope() async throws {
    let harness = try Harness()
    let issued = try await harness.issue { $0.scope = "" }
    let scanned = try await harness.scan(issued)
    #expect(scanned.scope == Scope.screen.description)
    try await harness.confirm(scanned, scope: "basic")
    #expect(try await harness.poll(issued, verifier: Harness.verifier).tokens?.scope == "basic")
    #expect(QRPurpose.confirmAction.scope(asked: .account).isEmpty)
    #expect(QRPurpose.transferGuest.scope(asked: .empty).isEmpty)
  }

  @Test("Q11: the new session carries the scope that was asked for, or what the person narrowed it to")
  func scope() async throws {
    let harness = try Harness()
    let whole = try await harness.confirmed()
    #expect(try await harness.poll(whole, verifier: Harness.verifier).tokens?.scope == "profile records")

    let narrowed = try await harness.issue()
    let scanned = try await harness.scan(narrowed)
    let refused = await refusal { try await harness.confirm(scanned, scope: "profile admin") }
    #expect(refused?.code == .invalidArgument)
    #expect(refused?.details.fieldViolations.first?.field == "scope_subset")
    try await harness.confirm(scanned, scope: "records")
    #expect(try await harness.poll(narrowed, verifier: Harness.verifier).tokens?.scope == "records")
  }

  @Test("R33: a refusal is final, and the screen is told access_denied")
  func denied() async throws {
    let harness = try Harness()
    let issued = try await harness.issue()
    let scanned = try await harness.scan(issued)
    try await harness.deny(scanned, reportAbuse: true)
    try await harness.deny(scanned)
    let poll = await refusal { _ = try await harness.poll(issued, verifier: Harness.verifier) }
    #expect(poll?.code == .permissionDenied)
    #expect(poll?.details.reason == "access_denied")
    #expect(await refusal { try await harness.confirm(scanned) } == .noSuchCode)
    #expect(await refusal { _ = try await harness.scan(issued) } == .noSuchCode)
    #expect(harness.grants.issuedCount == 0)
    #expect(harness.audited == [.issued, .scanned, .denied, .abuseReported])
  }

  @Test("The screen may give up; giving up twice is no error")
  func cancelled() async throws {
    let harness = try Harness()
    let issued = try await harness.issue()
    let scanned = try await harness.scan(issued)
    for _ in 0..<2 {
      _ = try await harness.api.cancelSession(
        QRV1.CancelSessionRequest(deviceCode: issued.deviceCode),
        context: .screen()
      )
    }
    #expect(await refusal { try await harness.confirm(scanned) } == .noSuchCode)
    let poll = await refusal { _ = try await harness.poll(issued) }
    #expect(poll?.code == .failedPrecondition)
    #expect(poll?.details.reason == "expired_token")
    let unknown = await refusal {
      _ = try await harness.api.cancelSession(
        QRV1.CancelSessionRequest(deviceCode: String(repeating: "A", count: 43)),
        context: .screen()
      )
    }
    #expect(unknown?.code == .notFound)
  }

  @Test("A restart at every step continues the flow")
  func restart() async throws {
    let before = try Harness()
    let issued = try await before.issue()
    _ = try await before.poll(issued)

    let scanning = try await before.restarted()
    #expect(try await scanning.poll(issued).state == .pending)
    let scanned = try await scanning.scan(issued)

    let confirming = try await scanning.restarted()
    #expect(try await confirming.poll(issued).state == .scanned)
    try await confirming.confirm(scanned)

    let redeeming = try await confirming.restarted()
    let tokens = try await redeeming.poll(issued, verifier: Harness.verifier).tokens
    #expect(tokens?.accessToken == "token-1")

    // The answer was lost with the process: the same poller gets a grant again, and identity ended the first.
    let repeating = try await redeeming.restarted()
    repeating.clock.move(by: .seconds(20))
    #expect(try await repeating.poll(issued, verifier: Harness.verifier).tokens != nil)
    #expect(repeating.grants.issuedCount == 1)
    let state = repeating.grants.state.withLock { $0.alive.count }
    #expect(state == 1)
  }

  @Test("Requests that are no requests are refused with the field at fault")
  func invalidRequests() async throws {
    let harness = try Harness()
    let changes: [(String, (inout QRV1.IssueSessionRequest) -> Void)] = [
      ("client_id", { $0.clientID = "" }),
      ("client_id", { $0.clientID = "Not An Id" }),
      ("purpose", { $0.purpose = .unspecified }),
      ("purpose", { $0.purpose = QRV1.Purpose(rawValue: 99) }),
      ("scope", { $0.scope = "a\"b" }),
      ("code_challenge", { $0.codeChallenge = "" }),
      ("code_challenge", { $0.codeChallenge = String(repeating: "A", count: 44) }),
      ("code_challenge_method", { $0.codeChallengeMethod = "plain" }),
      ("initiator.label", { $0.initiator = QRV1.Initiator(label: "two\nlines") }),
      ("initiator.app", { $0.initiator = QRV1.Initiator(app: String(repeating: "a", count: 65)) }),
      ("device_key", { $0.purpose = .bindDevice }),
      ("device_key", { $0.deviceKey = CommonV1.EcPublicJwk(kty: "RSA", crv: "P-256") }),
      (
        "device_key",
        {
          let one = Base64URL.encode([UInt8](repeating: 1, count: 32))
          $0.deviceKey = CommonV1.EcPublicJwk(kty: "EC", crv: "P-256", x: one, y: one)
        }
      ),
    ]
    for (field, change) in changes {
      let error = await refusal { _ = try await harness.issue(change) }
      #expect(error?.code == .invalidArgument, "\(field)")
      #expect(error?.details.fieldViolations.first?.field == field)
    }
    let issued = try await harness.issue()
    for (field, poll) in [
      ("device_code", QRV1.PollSessionRequest()),
      ("last_version", QRV1.PollSessionRequest(deviceCode: issued.deviceCode, lastVersion: -1)),
      ("wait_ms", QRV1.PollSessionRequest(deviceCode: issued.deviceCode, waitMs: -1)),
      ("wait_ms", QRV1.PollSessionRequest(deviceCode: issued.deviceCode, waitMs: 25_001)),
      ("code_verifier", QRV1.PollSessionRequest(deviceCode: issued.deviceCode, codeVerifier: "short")),
    ] {
      let error = await refusal { _ = try await harness.api.pollSession(poll, context: .screen()) }
      #expect(error?.details.fieldViolations.first?.field == field)
    }
    let scan = await refusal {
      _ = try await harness.api.scanSession(QRV1.ScanSessionRequest(), context: .phone())
    }
    #expect(scan?.details.fieldViolations.first?.field == "code")
  }

  @Test("Old rows are forgotten, redeemed ones a day later than the others")
  func housekeeping() async throws {
    let harness = try Harness()
    let redeemed = try await harness.confirmed()
    _ = try await harness.poll(redeemed, verifier: Harness.verifier)
    _ = try await harness.issue()
    #expect(try await harness.api.forgetBatch() == 0)
    harness.clock.move(by: .seconds(721))
    #expect(try await harness.api.forgetBatch() == 1)
    harness.clock.move(by: .seconds(86_400))
    #expect(try await harness.api.forgetBatch() == 1)
  }
}

extension Harness {
  /// Returns once a poll waits.
  func someoneWaits(_ count: Int = 1) async throws {
    for _ in 0..<30_000 {
      if api.table.waiterCount >= count { return }
      try await Task.sleep(for: .milliseconds(1))
    }
    Issue.record("nobody waits")
  }

  @Test("S5: an answer that tells of a decision is followed by no poll that knows nothing of it")
  func noStaleRead() async throws {
    let harness = try Harness()
    let issued = try await harness.issue()
    let scanned = try await harness.scan(issued)
    // A confirmation that is stored, and whose call has not come to publish it.
    let before = try await harness.stored(issued)
    var confirmed = before
    let ticket = try #require(ConfirmTicket(text: scanned.confirmTicket))
    let outcome = confirmed.confirm(
      by: try harness.api.confirmer(.phone()),
      ticket: QRSessionAPI.digest(ticket.secret),
      scope: nil,
      checkCode: (nil, harness.api.checkCode(of: before)),
      policy: QRConfirmPolicy(),
      at: harness.clock.now()
    )
    #expect(outcome == .confirmed)
    #expect(try await harness.api.store.exchange(before, for: confirmed, at: harness.clock.now()))
    #expect(try await harness.poll(issued).state == .scanned)
    #expect(await refusal { try await harness.deny(scanned) } == .noSuchCode)
    #expect(try await harness.poll(issued).state == .confirmed)
  }
}
