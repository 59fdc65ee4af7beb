import Cryptography
import GRPC
import LatchkeyModel
import LatchkeyProtos
import ServiceRuntime
import Storage
import StorageSQLite
import TestSupport
import Testing

@testable import QRSessionService

/// Rows of the checklist of QR sign-in, each tried as an attack.
@Suite struct AttackTests {
  @Test("S2, R31: what the code holds does not poll, and no secret of it reaches the database file")
  func pollSecretIsNotInTheCode() async throws {
    let harness = try Harness()
    let issued = try await harness.issue()
    let reference = String(issued.qrPayload.split(separator: "/").last ?? "")
    #expect(!issued.qrPayload.contains(issued.deviceCode))
    for stolen in [issued.qrPayload, reference, reference + reference.prefix(21), issued.userCode] {
      let error = await refusal {
        _ = try await harness.api.pollSession(
          QRV1.PollSessionRequest(deviceCode: stolen, codeVerifier: Harness.verifier),
          context: .screen()
        )
      }
      #expect(error == .unknownDeviceCode)
    }
    let scanned = try await harness.scan(issued)
    let stored =
      FileLook.contents(of: harness.folder.file("qr.db")) + FileLook.contents(of: harness.folder.file("qr.db-wal"))
    #expect(stored.count > 1000)
    let secrets: [[UInt8]] = [
      Array(issued.deviceCode.utf8), try #require(Base64URL.decode(issued.deviceCode)),
      Array(reference.utf8), try #require(Base64URL.decode(reference)),
      Array(issued.userCode.utf8), Array(issued.userCode.utf8.filter { $0 != UInt8(ascii: "-") }),
      Array(scanned.confirmTicket.utf8), Array(try #require(Base64URL.decode(scanned.confirmTicket)).suffix(32)),
    ]
    for secret in secrets { #expect(!stored.contains(secret)) }
    // The search does find what is there.
    #expect(stored.contains(Array("Living room".utf8)))
  }

  @Test("S3: without the verifier, or with another, nobody redeems")
  func pkce() async throws {
    let harness = try Harness()
    let issued = try await harness.confirmed()
    #expect(try await harness.poll(issued).tokens == nil)
    let wrong = await refusal {
      _ = try await harness.poll(issued, verifier: String(repeating: "x", count: 43))
    }
    #expect(wrong?.code == .invalidArgument)
    #expect(wrong?.details.reason == "invalid_grant")
    #expect(harness.grants.issuedCount == 0)
    #expect(harness.audited.contains(.wrongVerifier))
    #expect(try await harness.poll(issued, verifier: Harness.verifier).tokens != nil)
    // After it was redeemed as well.
    let late = await refusal { _ = try await harness.poll(issued, verifier: String(repeating: "x", count: 43)) }
    #expect(late?.details.reason == "invalid_grant")
    #expect(harness.grants.revokedCount == 0)
  }

  @Test("S4, R28: a code lives 120 seconds, to the screen as to the phone")
  func shortLife() async throws {
    let harness = try Harness()
    let issued = try await harness.issue()
    harness.clock.move(by: .milliseconds(119_999))
    let scanned = try await harness.scan(issued)
    #expect(scanned.expiresIn == 1)
    harness.clock.move(by: .milliseconds(1))
    #expect(await refusal { try await harness.confirm(scanned) } == .noSuchCode)
    #expect(await refusal { _ = try await harness.scan(issued) } == .noSuchCode)
    let poll = await refusal { _ = try await harness.poll(issued) }
    #expect(poll?.code == .failedPrecondition)
    #expect(poll?.details.reason == "expired_token")
  }

  @Test("S4: no configuration makes a code live longer than ten minutes")
  func lifetimeCeiling() async throws {
    let harness = try Harness { $0.lifetime = .seconds(3600) }
    #expect(try await harness.issue().expiresIn == 600)
  }

  @Test("S5, R29: a hundred pollers of one confirmed code make one grant", .timeLimit(.minutes(1)), arguments: 0..<5)
  func oneHandOver(round: Int) async throws {
    let harness = try Harness()
    harness.grants.state.withLock { $0.pause = .milliseconds(round * 3) }
    let issued = try await harness.confirmed()
    let tokens = try await withThrowingTaskGroup(of: String.self) { group in
      for _ in 0..<100 {
        group.addTask { try await harness.poll(issued, verifier: Harness.verifier).tokens?.accessToken ?? "" }
      }
      return try await group.reduce(into: Set<String>()) { $0.insert($1) }
    }
    #expect(tokens == ["token-1"])
    #expect(harness.grants.issuedCount == 1)
    #expect(harness.audited.filter { $0 == .redeemed }.count == 1)
    #expect(try await harness.stored(issued).phase.state == .consumed)
  }

  @Test("S5, R29: of many confirmations and denials at once, one decides", .timeLimit(.minutes(1)))
  func oneDecision() async throws {
    for _ in 0..<20 {
      let harness = try Harness()
      let issued = try await harness.issue()
      let scanned = try await harness.scan(issued)
      let (confirmed, denied) = await withTaskGroup(of: (Bool, Bool).self) { group in
        for index in 0..<20 {
          group.addTask {
            let error = await refusal {
              if index % 2 == 0 { try await harness.confirm(scanned) } else { try await harness.deny(scanned) }
            }
            return (index % 2 == 0 && error == nil, index % 2 == 1 && error == nil)
          }
        }
        return await group.reduce((0, 0)) { ($0.0 + ($1.0 ? 1 : 0), $0.1 + ($1.1 ? 1 : 0)) }
      }
      // Repeating the decision that was taken is no error; taking the other one is.
      #expect((confirmed == 0) != (denied == 0))
      #expect(harness.audited.filter { $0 == .confirmed || $0 == .denied }.count == 1)
    }
  }

  @Test("S5: a session cancelled while it is redeemed hands nothing over, and what was issued is ended")
  func cancelledWhileRedeeming() async throws {
    let harness = try Harness()
    let issued = try await harness.confirmed()
    harness.grants.state.withLock { state in
      state.onIssue = { [harness] in
        _ = try? await harness.api.cancelSession(
          QRV1.CancelSessionRequest(deviceCode: issued.deviceCode),
          context: .screen()
        )
      }
    }
    let error = await refusal { _ = try await harness.poll(issued, verifier: Harness.verifier) }
    harness.grants.state.withLock { $0.onIssue = nil }
    #expect(error?.details.reason == "expired_token")
    #expect(harness.grants.state.withLock { $0.alive.isEmpty })
    #expect(harness.grants.revokedCount == 1)
  }

  @Test("S5: identity failing in the middle loses nothing: the next poll redeems")
  func identityFails() async throws {
    let harness = try Harness()
    let issued = try await harness.confirmed()
    harness.grants.fail(RPCError(.unavailable, "identity is down"))
    let error = await refusal { _ = try await harness.poll(issued, verifier: Harness.verifier) }
    #expect(error?.code == .unavailable)
    #expect(try await harness.poll(issued).state == .confirmed)
    #expect(try await harness.poll(issued, verifier: Harness.verifier).tokens?.accessToken == "token-1")
  }

  @Test("S5: the same poller repeating its poll within 30 seconds gets the same answer")
  func repeatedPoll() async throws {
    let harness = try Harness()
    let issued = try await harness.confirmed()
    let first = try await harness.poll(issued, verifier: Harness.verifier)
    harness.clock.move(by: .seconds(30))
    #expect(try await harness.poll(issued, verifier: Harness.verifier) == first)
    #expect(harness.grants.issuedCount == 1)
  }

  @Test("S19, R30: a code used again after its window revokes what it issued, also after memory forgot it")
  func reuse() async throws {
    // Also before anybody has tidied up.
    let justOver = Duration.milliseconds(30_001)
    for (delay, isSwept) in [(justOver, true), (justOver, false), (.seconds(3600), true)] {
      let harness = try Harness()
      let issued = try await harness.confirmed()
      _ = try await harness.poll(issued, verifier: Harness.verifier)
      harness.clock.move(by: delay)
      if isSwept { harness.api.sweep(at: harness.clock.now()) }
      let error = await refusal { _ = try await harness.poll(issued, verifier: Harness.verifier) }
      #expect(error?.code == .failedPrecondition)
      #expect(error?.details.reason == "expired_token")
      #expect(harness.grants.state.withLock { $0.alive.isEmpty })
      #expect(harness.grants.revokedCount == 1)
      #expect(harness.audited.last == .reused)
    }
  }

  @Test("S19, S14: polls of a code that was used again are slowed, and end what it issued once")
  func reuseIsSlowed() async throws {
    let harness = try Harness()
    let issued = try await harness.confirmed()
    _ = try await harness.poll(issued, verifier: Harness.verifier)
    harness.clock.move(by: .seconds(31))
    #expect(await refusal { _ = try await harness.poll(issued, verifier: Harness.verifier) } == .alreadyUsed)
    let reads = harness.database.statistics.reads
    for _ in 0..<20 {
      let again = await refusal { _ = try await harness.poll(issued, verifier: Harness.verifier) }
      #expect(again?.details.reason == "slow_down")
    }
    #expect(harness.grants.revokedCount == 1)
    #expect(harness.database.statistics.reads == reads)
    harness.clock.move(by: .seconds(60))
    #expect(await refusal { _ = try await harness.poll(issued, verifier: Harness.verifier) } == .alreadyUsed)
    #expect(harness.grants.revokedCount == 1)
    #expect(harness.audited.filter { $0 == .reused }.count == 1)
  }

  @Test("R37: polls with a wrong verifier are slowed and read nothing, and the right one is not")
  func guessesAreSlowed() async throws {
    let harness = try Harness()
    let issued = try await harness.confirmed()
    func guess(_ letter: String) async -> RPCError? {
      await refusal { _ = try await harness.poll(issued, verifier: String(repeating: letter, count: 43)) }
    }
    for letter in ["x", "y", "x", "z"] { #expect(await guess(letter)?.details.reason == "invalid_grant") }
    let reads = harness.database.statistics.reads
    for letter in ["x", "y", "z", "x"] { #expect(await guess(letter)?.details.reason == "slow_down") }
    #expect(harness.database.statistics.reads == reads)
    #expect(harness.audited.filter { $0 == .wrongVerifier }.count == 4)
    #expect(try await harness.poll(issued, verifier: Harness.verifier).tokens != nil)
    #expect(await guess("y")?.details.reason == "slow_down")
    harness.clock.move(by: .seconds(61))
    #expect(await guess("y")?.details.reason == "invalid_grant")
  }

  @Test("S6: a code that a second account submits is cancelled, and the second account learns nothing")
  func passedAround() async throws {
    let harness = try Harness()
    let issued = try await harness.issue()
    let scanned = try await harness.scan(issued)
    let time = Task { await harness.api.run() }
    defer { time.cancel() }
    #expect(await refusal { _ = try await harness.scan(issued, as: .phone("bob")) } == .noSuchCode)
    for _ in 0..<30_000 where try await harness.stored(issued).phase != .cancelled {
      try await Task.sleep(for: .milliseconds(1))
    }
    #expect(await refusal { try await harness.confirm(scanned) } == .noSuchCode)
    #expect(harness.audited.contains(.scannedByAnother))
    #expect(harness.grants.issuedCount == 0)
  }

  @Test("S6: a code that a second account submits is cancelled also when the service dies right after its answer")
  func passedAroundAndKilled() async throws {
    let harness = try Harness()
    let issued = try await harness.issue()
    let other = try await harness.issue()
    _ = try await harness.scan(issued)
    #expect(await refusal { _ = try await harness.scan(issued, as: .phone("bob")) } == .noSuchCode)
    let next = try await harness.restarted()
    #expect(try await next.stored(issued).phase == .cancelled)
    // Nothing is left of it, and nobody else's code is meant.
    #expect(FollowUpNotes(path: next.folder.file("latchkey-qr.follow-ups"))?.left == [])
    #expect(try await next.stored(other).phase == .pending)
  }

  @Test("S6: a code that is passed around while the storage is away is cancelled when it is back")
  func passedAroundInAnOutage() async throws {
    let harness = try Harness()
    let issued = try await harness.issue()
    _ = try await harness.scan(issued)
    #expect(await refusal { _ = try await harness.scan(issued, as: .phone("bob")) } == .noSuchCode)
    await harness.database.close()
    #expect(await !harness.api.cancelPassedAround())
    let next = try Harness(in: harness.folder, at: harness.clock.now())
    #expect(try await next.stored(issued).phase != .cancelled)
    try await next.api.load()
    #expect(try await next.stored(issued).phase == .cancelled)
  }

  @Test("S7, R33: scanning signs nobody in; the ticket is the scanner's, and lasts 60 seconds")
  func scanIsNotConfirm() async throws {
    let harness = try Harness()
    let issued = try await harness.issue()
    let scanned = try await harness.scan(issued)
    let waiting = try await harness.poll(issued, verifier: Harness.verifier)
    #expect(waiting.state == .scanned)
    #expect(waiting.tokens == nil)
    for thief in [ServerContext.phone("bob"), .phone("ada", session: "tablet")] {
      #expect(await refusal { try await harness.confirm(scanned, as: thief) } == .noSuchCode)
      #expect(await refusal { try await harness.deny(scanned, as: thief) } == .noSuchCode)
    }
    harness.clock.move(by: .seconds(60))
    #expect(await refusal { try await harness.confirm(scanned) } == .noSuchCode)
    // Scanning again is how to go on.
    try await harness.confirm(try await harness.scan(issued))
  }

  @Test("Q6: scanning twice is one claim, and only the later ticket holds")
  func scannedTwice() async throws {
    let harness = try Harness()
    let issued = try await harness.issue()
    let first = try await harness.scan(issued)
    let second = try await harness.scan(issued)
    #expect(await refusal { try await harness.confirm(first) } == .noSuchCode)
    try await harness.confirm(second)
    try await harness.confirm(second)
    #expect(harness.audited.filter { $0 == .confirmed }.count == 1)
  }

  @Test("R32: a ticket confirms its own session and no other")
  func crossSession() async throws {
    let harness = try Harness()
    let mine = try await harness.issue()
    let theirs = try await harness.issue()
    let ticket = try #require(ConfirmTicket(text: try await harness.scan(mine).confirmTicket))
    let other = try #require(ConfirmTicket(text: try await harness.scan(theirs).confirmTicket))
    let forged = Base64URL.encode(other.session.bytes + ticket.secret)
    let error = await refusal {
      _ = try await harness.api.confirmSession(QRV1.ConfirmSessionRequest(confirmTicket: forged), context: .phone())
    }
    #expect(error == .noSuchCode)
    #expect(try await harness.stored(theirs).phase.state == .scanned)
  }

  @Test("S8, R32: the confirm screen learns which device asks, from where and when, before anything is granted")
  func confirmScreen() async throws {
    let harness = try Harness()
    let issued = try await harness.issue()
    harness.clock.move(by: .seconds(40))
    let scanned = try await harness.scan(issued, as: .phone(address: "198.51.100.1"))
    #expect(scanned.initiator?.label == "Living room")
    #expect(scanned.initiator?.app == "player")
    #expect(scanned.risk?.network == "203.0.113.0/24")
    #expect(scanned.issuedAt?.seconds == (harness.clock.now() - .seconds(40)).secondsSinceEpoch)
    #expect(scanned.expiresIn == 60)
    #expect(harness.grants.issuedCount == 0)
  }

  @Test("S9: on another network the digits are asked for; one wrong try voids the code")
  func checkCode() async throws {
    let harness = try Harness()
    let issued = try await harness.issue()
    let away = ServerContext.phone(address: "198.51.100.1")
    let scanned = try await harness.scan(issued, as: away)
    #expect(scanned.needsCheckCode)
    #expect(scanned.risk?.signals == ["different_network"])
    #expect(await refusal { try await harness.confirm(scanned, as: away) }?.code == .invalidArgument)
    let wrong = issued.checkCode == "00" ? "01" : "00"
    #expect(await refusal { try await harness.confirm(scanned, checkCode: wrong, as: away) } == .wrongCheckCode)
    #expect(
      await refusal { try await harness.confirm(scanned, checkCode: issued.checkCode, as: away) } == .noSuchCode
    )
    #expect(await refusal { _ = try await harness.poll(issued) } == .accessDenied)

    let again = try await harness.issue()
    let rescanned = try await harness.scan(again, as: away)
    try await harness.confirm(rescanned, checkCode: again.checkCode, as: away)
    #expect(try await harness.poll(again, verifier: Harness.verifier).tokens != nil)
  }

  @Test("S10: the confirm screen is told how near the other device is")
  func proximity() async throws {
    let harness = try Harness()
    let near = try await harness.scan(try await harness.issue())
    #expect(near.risk?.network == "203.0.113.0/24")
    #expect(near.risk?.distance == .sameNetwork)
    #expect(near.needsCheckCode == false)
    let six = try await harness.issue(context: .screen(address: "2001:db8:1:2::7"))
    let scanned = try await harness.scan(six, as: .phone(address: "2001:db8:1:9::1"))
    #expect(scanned.risk?.network == "2001:db8:1::/48")
    #expect(scanned.risk?.distance == .sameNetwork)
  }

  @Test("S11, R34: a guest confirms no sign-in, and is told the same about a code that is nobody's")
  func guests() async throws {
    let harness = try Harness()
    let issued = try await harness.issue()
    let guest = ServerContext.phone("guest", isGuest: true, authenticatedAt: nil)
    let known = await refusal { _ = try await harness.scan(issued, as: guest) }
    var unknown = issued
    unknown.qrPayload = String(issued.qrPayload.dropLast(4)) + "AAAA"
    let nobody = await refusal { _ = try await harness.scan(unknown, as: guest) }
    #expect(known?.details.reason == "LOGIN_REQUIRED")
    #expect(known == nobody)
    #expect(try await harness.poll(issued).state == .pending)
  }

  @Test("S11: an old proof of identity is asked for again before it confirms")
  func reauthentication() async throws {
    let harness = try Harness { $0.confirm.maximumAuthenticationAge = .seconds(300) }
    let issued = try await harness.issue()
    let stale = ServerContext.phone(authenticatedAt: harness.clock.now() - .seconds(301))
    let scanned = try await harness.scan(issued, as: stale)
    #expect(scanned.needsReauth)
    #expect(await refusal { try await harness.confirm(scanned, as: stale) } == .reauthenticationRequired)
    try await harness.confirm(scanned, as: .phone(authenticatedAt: harness.clock.now()))
  }

  @Test("S12: only registered clients get codes")
  func clients() async throws {
    let harness = try Harness()
    let error = await refusal { _ = try await harness.issue { $0.clientID = "someone-else" } }
    #expect(error?.code == .permissionDenied)
    #expect(error?.details.reason == "unauthorized_client")
    let open = try Harness { $0.clients = nil }
    _ = try await open.issue { $0.clientID = "someone-else" }
  }

  @Test(
    "S19: a code whose confirmer signed out or was disabled since is over, and its screen is told so",
    arguments: ["CONFIRMER_GONE", "LOGIN_REQUIRED", "QR_REVOKED"]
  )
  func confirmerGone(reason: String) async throws {
    let harness = try Harness()
    let issued = try await harness.confirmed()
    harness.grants.fail(RPCError(.failedPrecondition, "no", reason: reason))
    let refused = await refusal { _ = try await harness.poll(issued, verifier: Harness.verifier) }
    #expect(refused?.code == .permissionDenied && refused?.details.reason == "access_denied")
    #expect(try await harness.stored(issued).phase.state == .cancelled)
    #expect(harness.audited.last == .cancelled)
    let later = await refusal { _ = try await harness.poll(issued, verifier: Harness.verifier) }
    #expect(later?.details.reason == "expired_token" && harness.grants.issuedCount == 0)
  }

  @Test("S16: a session that was given less than the account agrees to nothing, and is told the same of any code")
  func narrowConfirmer() async throws {
    let harness = try Harness()
    let issued = try await harness.issue()
    let screen = ServerContext.phone(scope: "basic profile")
    let refused = await refusal { _ = try await harness.scan(issued, as: screen) }
    #expect(refused?.code == .permissionDenied && refused?.details.reason == "INSUFFICIENT_SCOPE")
    var unknown = issued
    unknown.qrPayload = String(issued.qrPayload.dropLast(4)) + "AAAA"
    #expect(await refusal { _ = try await harness.scan(unknown, as: screen) } == refused)
    // Nor does it decide what another session of the account has scanned.
    let scanned = try await harness.scan(issued)
    #expect(await refusal { try await harness.confirm(scanned, as: screen) } == refused)
    #expect(try await harness.poll(issued).state == .scanned)
  }

  private func trusted(_ entries: String...) throws -> TrustedInitiators {
    TrustedInitiators(try entries.map { try #require(TrustedInitiators.Entry($0)) })
  }

  @Test("S12: a client with registered networks gets codes nowhere else, and another client anywhere")
  func trustedNetworks() async throws {
    let list = try trusted("latchkey-demo=203.0.113.0/25", "latchkey-demo=2001:db8:1::/48")
    let harness = try Harness {
      $0.trustedInitiators = list
      $0.clients = nil
    }
    for address in ["203.0.113.7", "203.0.113.127", "2001:db8:1:ffff::1", "::ffff:203.0.113.9"] {
      _ = try await harness.issue(context: .screen(address: address))
    }
    for address in ["203.0.113.128", "203.0.112.255", "2001:db8:2::1", "", "nonsense"] {
      let error = await refusal { _ = try await harness.issue(context: .screen(address: address)) }
      #expect(error?.code == .permissionDenied && error?.details.reason == "INITIATOR_NOT_TRUSTED", "\(address)")
    }
    _ = try await harness.issue({ $0.clientID = "other" }, context: .screen(address: "198.51.100.1"))
    // A client that nobody named has the list of *, where there is one.
    let strict = try trusted("*=10.0.0.0/8", "other=198.51.100.1")
    let closed = try Harness {
      $0.trustedInitiators = strict
      $0.clients = nil
    }
    #expect(await refusal { _ = try await closed.issue() }?.details.reason == "INITIATOR_NOT_TRUSTED")
    _ = try await closed.issue(context: .screen(address: "10.9.8.7"))
    _ = try await closed.issue({ $0.clientID = "other" }, context: .screen(address: "198.51.100.1"))
  }

  @Test("S12: a client with registered devices gets codes for their keys only, and only who holds the key collects")
  func trustedDevices() async throws {
    let (till, stranger) = (try P256PrivateKey(), try P256PrivateKey())
    let list = try trusted("latchkey-demo=\(till.publicKey.thumbprint)", "latchkey-demo=203.0.113.0/24")
    let harness = try Harness { $0.trustedInitiators = list }
    for key in [nil, stranger.publicKey] {
      let error = await refusal { _ = try await harness.issue { $0.deviceKey = key.map { .init($0) } } }
      #expect(error?.details.reason == "INITIATOR_NOT_TRUSTED")
      #expect(error?.message.contains("device_key") == true)
    }
    let named: (inout QRV1.IssueSessionRequest) -> Void = { $0.deviceKey = .init(till.publicKey) }
    let elsewhere = await refusal { _ = try await harness.issue(named, context: .screen(address: "198.51.100.1")) }
    #expect(elsewhere?.details.reason == "INITIATOR_NOT_TRUSTED")
    // A thumbprint is no secret: naming another's key shows a code, and collects nothing.
    let issued = try await harness.issue(named)
    try await harness.confirm(try await harness.scan(issued))
    let unsigned = await refusal { _ = try await harness.poll(issued, verifier: Harness.verifier) }
    #expect(unsigned?.details.fieldViolations.first?.field == "device_proof")
    let forged = try harness.deviceProof(issued, with: stranger)
    let wrong = await refusal {
      _ = try await harness.poll(issued, verifier: Harness.verifier, deviceProof: forged)
    }
    #expect(wrong?.details.reason == "invalid_grant")
    let proof = try harness.deviceProof(issued, with: till)
    #expect(try await harness.poll(issued, verifier: Harness.verifier, deviceProof: proof).tokens != nil)
  }

  @Test(
    "S12: what is no entry of the list is refused at start",
    arguments: [
      "", "till", "till=", "=10.0.0.0/8", "till=10.0.0.0/33", "till=10.0.0/8", "till=2001:db8::/129", "Till=10.0.0.1",
      "till=AAAA", "till=10.0.0.0/-1", "*=*",
    ]
  )
  func noTrustedEntry(text: String) {
    #expect(TrustedInitiators.Entry(text) == nil)
  }

  @Test("S13, R26: a source that asks for too many codes waits; another is served")
  func issueLimit() async throws {
    let harness = try Harness { $0.issueRate = Rate(5, per: .seconds(50)) }
    for _ in 0..<5 { _ = try await harness.issue() }
    let error = await refusal { _ = try await harness.issue() }
    #expect(error?.code == .resourceExhausted)
    #expect(error?.details.retryAfter == .seconds(10))
    _ = try await harness.issue(context: .screen(address: "203.0.113.8"))
    harness.clock.move(by: .seconds(10))
    _ = try await harness.issue()
    #expect(await refusal { _ = try await harness.issue() }?.code == .resourceExhausted)
  }

  @Test("S13: the addresses of one IPv6 network of 64 bits are one source, those of another are another")
  func networkIsOneSource() async throws {
    let harness = try Harness { $0.issueRate = Rate(2, per: .seconds(60)) }
    _ = try await harness.issue(context: .screen(address: "2001:db8:1:2::1"))
    _ = try await harness.issue(context: .screen(address: "2001:db8:1:2:ffff::2"))
    let third = ServerContext.screen(address: "2001:db8:1:2:aaaa:bbbb:cccc:dddd")
    #expect(await refusal { _ = try await harness.issue(context: third) }?.code == .resourceExhausted)
    _ = try await harness.issue(context: .screen(address: "2001:db8:1:3::1"))
  }

  @Test("S13: an account that scans codes which are not there for it waits; those that are there cost nothing")
  func wrongScans() async throws {
    let harness = try Harness { $0.wrongCodeRate = Rate(3, per: .seconds(60)) }
    let issued = try await harness.issue()
    let over = try await harness.issue()
    _ = try await harness.api.cancelSession(
      QRV1.CancelSessionRequest(deviceCode: over.deviceCode),
      context: .screen()
    )
    for _ in 0..<5 { _ = try await harness.scan(issued) }
    for _ in 0..<3 { #expect(await refusal { _ = try await harness.scan(over) } == .noSuchCode) }
    let fourth = await refusal { _ = try await harness.scan(issued) }
    #expect(fourth?.code == .resourceExhausted)
    #expect(fourth?.details.retryAfter == .seconds(20))
    // Nobody else pays for it.
    #expect(await refusal { _ = try await harness.scan(over, as: .phone("bob")) } == .noSuchCode)
  }

  @Test("S14: the first poll is free, the next waits its interval, and a decided code is never throttled")
  func slowDown() async throws {
    let harness = try Harness()
    let issued = try await harness.issue()
    _ = try await harness.poll(issued)
    let rushed = await refusal { _ = try await harness.poll(issued) }
    #expect(rushed?.code == .resourceExhausted)
    #expect(rushed?.details.reason == "slow_down")
    #expect(rushed?.details.retryAfter == .seconds(10))
    harness.clock.move(by: .seconds(10))
    #expect(try await harness.poll(issued).interval == 10)
    // The scan is news: the next poll is free. The confirmation ends throttling.
    let scanned = try await harness.scan(issued)
    #expect(try await harness.poll(issued).state == .scanned)
    #expect(await refusal { _ = try await harness.poll(issued) }?.details.reason == "slow_down")
    try await harness.confirm(scanned)
    for _ in 0..<5 { #expect(try await harness.poll(issued).state == .confirmed) }
  }

  @Test("S15: five wrong user codes and the account waits, right code or not; an unknown code looks like any other")
  func userCodeTries() async throws {
    let harness = try Harness()
    let issued = try await harness.issue()
    let type = { (code: String, account: String) in
      await refusal {
        _ = try await harness.api.scanSession(
          QRV1.ScanSessionRequest(code: .userCode(code)),
          context: .phone(account)
        )
      }
    }
    // Right ones do not count.
    for _ in 0..<7 { #expect(await type(issued.userCode.lowercased(), "ada") == nil) }
    let over = try await harness.issue()
    _ = try await harness.api.cancelSession(
      QRV1.CancelSessionRequest(deviceCode: over.deviceCode),
      context: .screen()
    )
    for code in ["BCDF-GHJK", "not a code", over.userCode, "ZZZZ-ZZZZ", "XXXX-XXXX"] {
      #expect(await type(code, "eve") == .noSuchCode)
    }
    let sixth = await type(issued.userCode, "eve")
    #expect(sixth?.code == .resourceExhausted)
    #expect(sixth?.details.retryAfter == .seconds(120))
    // Nobody else pays for it.
    #expect(await type(issued.userCode, "ada") == nil)
  }

  @Test("S15: parallel guesses have five tries as well")
  func parallelGuesses() async throws {
    let harness = try Harness()
    let answers = await withTaskGroup(of: StatusCode?.self) { group in
      for _ in 0..<100 {
        group.addTask {
          await refusal {
            _ = try await harness.api.scanSession(
              QRV1.ScanSessionRequest(code: .userCode("BCDF-GHJK")),
              context: .phone("eve")
            )
          }?.code
        }
      }
      return await group.reduce(into: [StatusCode: Int]()) { $0[$1 ?? .ok, default: 0] += 1 }
    }
    #expect(answers == [.notFound: 5, .resourceExhausted: 95])
  }

  @Test("S17: identity is asked for a session of the screen's own, with the screen's key, never the phone's tokens")
  func freshSession() async throws {
    let harness = try Harness()
    let key = try P256PrivateKey().publicKey
    let issued = try await harness.issue {
      $0.deviceKey = CommonV1.EcPublicJwk(key)
    }
    try await harness.confirm(try await harness.scan(issued))
    _ = try await harness.poll(issued, verifier: Harness.verifier)
    let asked = try #require(harness.grants.state.withLock { $0.issued.first })
    #expect(asked.claim?.subject.description == ServerContext.id("ada"))
    #expect(asked.claim?.sessionID.description == ServerContext.id("phone"))
    #expect(asked.request.deviceKey == key.x + key.y)
    #expect(asked.request.initiator.keyThumbprint == key.thumbprint)
  }

  @Test("S21: the device that shows a code cannot confirm it, by session or by key")
  func sameDevice() async throws {
    let harness = try Harness()
    let bySession = try await harness.issue(context: .phone())
    #expect(await refusal { _ = try await harness.scan(bySession) } == .sameDevice)
    let key = try P256PrivateKey().publicKey
    let byKey = try await harness.issue {
      $0.deviceKey = CommonV1.EcPublicJwk(key)
    }
    let holder = ServerContext.phone("bob", session: "other", key: key.thumbprint)
    #expect(await refusal { _ = try await harness.scan(byKey, as: holder) } == .sameDevice)
    #expect(harness.audited.filter { $0 == .sameDeviceRefused }.count == 2)
    _ = try await harness.scan(byKey)
  }

  @Test("S22: a code of another host, scheme, version or form is nobody's code")
  func payloads() async throws {
    let harness = try Harness()
    let issued = try await harness.issue()
    let reference = String(issued.qrPayload.split(separator: "/").last ?? "")
    for text in [
      "https://login.example.evil.test/q/1/\(reference)", "http://login.example/q/1/\(reference)",
      "https://login.example/q/2/\(reference)", "\(issued.qrPayload)?x=1", reference, "",
    ] {
      let error = await refusal {
        _ = try await harness.api.scanSession(QRV1.ScanSessionRequest(code: .qrPayload(text)), context: .phone())
      }
      #expect(error == .noSuchCode, "\(text)")
    }
  }

  @Test(
    "S24: unknown, expired, denied, cancelled, used and claimed codes are one answer to a scanner, after the same work"
  )
  func uniformAnswers() async throws {
    let harness = try Harness()
    let expired = try await harness.issue()
    harness.clock.move(by: .seconds(121))
    let denied = try await harness.issue()
    try await harness.deny(try await harness.scan(denied))
    let cancelled = try await harness.issue()
    _ = try await harness.api.cancelSession(
      QRV1.CancelSessionRequest(deviceCode: cancelled.deviceCode),
      context: .screen()
    )
    let used = try await harness.confirmed()
    _ = try await harness.poll(used, verifier: Harness.verifier)
    let claimed = try await harness.issue()
    _ = try await harness.scan(claimed)
    var unknown = claimed
    unknown.qrPayload = String(claimed.qrPayload.dropLast(4)) + "AAAA"
    let writes = harness.database.statistics.writes
    for issued in [expired, denied, cancelled, used, claimed, unknown] {
      let reads = harness.database.statistics.reads
      #expect(await refusal { _ = try await harness.scan(issued, as: .phone("eve")) } == .noSuchCode)
      #expect(harness.database.statistics.reads == reads + 1)
    }
    #expect(harness.database.statistics.writes == writes)
  }

  @Test("S30: whatever is wrong with a code, storage and identity are asked the same, and the answer is the same")
  func sameWork() async throws {
    let harness = try Harness()
    let expired = try await harness.issue()
    harness.clock.move(by: .seconds(121))
    let cancelled = try await harness.issue()
    _ = try await harness.api.cancelSession(
      QRV1.CancelSessionRequest(deviceCode: cancelled.deviceCode), context: .screen())
    let claimed = try await harness.issue()
    _ = try await harness.scan(claimed)
    let codes: [QRV1.ScanSessionRequest.Code] =
      [expired, cancelled, claimed].flatMap { [.qrPayload($0.qrPayload), .userCode($0.userCode)] } + [
        .qrPayload(String(claimed.qrPayload.dropLast(4)) + "AAAA"), .userCode("BCDF-GHJK"),
        .qrPayload("https://elsewhere.example/q/1/AAAAAAAAAAAAAAAAAAAAAA"), .qrPayload(""), .userCode("aeiou"),
        .userCode(""),
      ]
    for (number, code) in codes.enumerated() {
      let reads = harness.database.statistics.reads
      let described = harness.grants.state.withLock { $0.described }
      let answer = await refusal {
        _ = try await harness.api.scanSession(
          QRV1.ScanSessionRequest(code: code), context: .phone("eve \(number)", session: "eve \(number)"))
      }
      #expect(answer == .noSuchCode, "\(number)")
      #expect(harness.database.statistics.reads == reads + 1, "\(number)")
      #expect(harness.grants.state.withLock { $0.described } == described + 1, "\(number)")
    }
  }

  @Test("S30: claimed codes that others scan are cancelled after the answers, without another look, by few commits")
  func cancelsInBatches() async throws {
    let harness = try Harness()
    var claimed: [QRV1.IssueSessionResponse] = []
    for number in 0..<40 {
      let issued = try await harness.issue()
      _ = try await harness.scan(issued, as: .phone("ada \(number)", session: "ada \(number)"))
      claimed.append(issued)
    }
    let before = harness.database.statistics
    for (number, issued) in claimed.enumerated() {
      let eve = ServerContext.phone("eve \(number)", session: "eve \(number)")
      #expect(await refusal { _ = try await harness.scan(issued, as: eve) } == .noSuchCode)
    }
    // What an answer takes is what it takes for a code that is nobody's: one read.
    #expect(harness.database.statistics.reads == before.reads + 40)
    #expect(harness.database.statistics.writes == before.writes)
    await harness.api.cancelPassedAround()
    let after = harness.database.statistics
    #expect(after.reads == before.reads + 40 && after.writes == before.writes + 40)
    #expect(after.commits - before.commits <= 20)
    for issued in claimed { #expect(try await harness.stored(issued).phase.state == .cancelled) }
    #expect(harness.audited.filter { $0 == .scannedByAnother }.count == 40)
    // A second time there is nothing to do.
    await harness.api.cancelPassedAround()
    #expect(harness.database.statistics.writes == after.writes)
  }

  @Test("S23: the screen shows which account scanned, masked; without a name to show nobody claims the code")
  func scannerIsShown() async throws {
    let harness = try Harness()
    let issued = try await harness.issue()
    #expect(try await harness.poll(issued).scannerMask == "")
    harness.grants.state.withLock { $0.maskFailure = RPCError(.unavailable, "identity is away") }
    #expect(await refusal { _ = try await harness.scan(issued, as: .phone("mallory")) }?.code == .unavailable)
    #expect(try await harness.stored(issued).phase == .pending)
    harness.grants.state.withLock { $0.maskFailure = nil }
    let scanned = try await harness.scan(issued, as: .phone("mallory"))
    let mask = "\(ServerContext.id("mallory").prefix(2))***"
    #expect(try await harness.poll(issued, lastVersion: 1).scannerMask == mask)
    try await harness.confirm(scanned, as: .phone("mallory"))
    // Shown before anything is redeemed, and after a restart as well.
    let restarted = try await harness.restarted()
    let poll = try await restarted.poll(issued)
    #expect(poll.scannerMask == mask && poll.tokens == nil)
  }

  @Test("S25: every transition leaves an event, with the code's hash and never the code")
  func audit() async throws {
    let harness = try Harness()
    let issued = try await harness.confirmed()
    _ = try await harness.poll(issued, verifier: Harness.verifier)
    let left = try await harness.issue()
    harness.clock.move(by: .seconds(122))
    harness.api.sweep(at: harness.clock.now())
    #expect(harness.audited == [.issued, .scanned, .confirmed, .redeemed, .issued, .expired])
    let reference = try #require(
      QRReference(text: issued.qrPayload.split(separator: "/").last ?? "")
    )
    let hash = QRSessionAPI.digest(reference.bytes).bytes.prefix(8)
    let shown = hash.map { byte in (byte < 16 ? "0" : "") + String(byte, radix: 16) }.joined()
    for event in harness.auditEvents.prefix(4) {
      #expect(event.codeHash == shown)
      let text = "\(event)"
      for secret in [issued.deviceCode, issued.userCode, reference.text, left.deviceCode] {
        #expect(!text.contains(secret))
      }
    }
  }

  @Test("R27: codes are 128 bits, and what can be guessed within a code's life is below 2^-32")
  func entropy() async throws {
    #expect(QRReference.byteCount * 8 >= 128)
    #expect(PollSecret.byteCount * 8 >= 128)
    // A million live codes, a million accounts guessing at the limit for a code's life: 2^20 × 2^20 × 2^7 guesses.
    #expect(QRReference.byteCount * 8 - 20 - 20 - 7 >= 32)
  }

  @Test("R26: unknown device codes are refused from memory once a source sent many, and honest polls go on")
  func unknownDeviceCodes() async throws {
    let harness = try Harness { $0.unknownCodeRate = Rate(10, per: .seconds(60)) }
    let issued = try await harness.issue()
    for _ in 0..<500 {
      let code = Base64URL.encode(SecureRandom.bytes(32))
      let error = await refusal {
        _ = try await harness.api.pollSession(QRV1.PollSessionRequest(deviceCode: code), context: .screen())
      }
      #expect(error == .unknownDeviceCode)
    }
    #expect(harness.database.statistics.reads <= 20)
    #expect(try await harness.poll(issued).state == .pending)
  }
}
