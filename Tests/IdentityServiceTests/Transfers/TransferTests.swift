import Cryptography
import GRPC
import LatchkeyModel
import LatchkeyProtos
import TestSupport
import Testing

@testable import IdentityService

@Suite("A new phone")
struct TransferTests {
  private func create(
    _ harness: IdentityHarness,
    _ tokens: CommonV1.TokenSet?,
    _ request: IdentityV1.CreateTransferRequest = .init()
  ) async throws -> IdentityV1.CreateTransferResponse {
    try await harness.transfers.createTransfer(request, options: .bearer(tokens))
  }

  private func request(
    _ harness: IdentityHarness,
    _ device: TestDevice,
    code: String,
    keepOld: Bool
  ) async throws -> IdentityV1.RedeemTransferRequest {
    let challenge = try await harness.challenge(for: device)
    let described = try device.issueRequest(challenge).device
    return IdentityV1.RedeemTransferRequest(
      secret: .code(code),
      clientID: device.clientID,
      device: described,
      challenge: challenge,
      proof: try device.sign("latchkey-transfer-proof-v1", [device.clientID, device.deviceID, challenge, code]),
      keepOld: keepOld
    )
  }

  private func redeem(
    _ harness: IdentityHarness,
    _ device: TestDevice,
    code: String,
    keepOld: Bool
  ) async throws -> IdentityV1.RedeemTransferResponse {
    try await harness.transfers.redeemTransfer(
      try await request(harness, device, code: code, keepOld: keepOld)
    )
  }

  @Test("D8: a guest moves to a new phone by a code; the old one gets another guest")
  func movesGuest() async throws {
    let harness = try await IdentityHarness()
    let (old, new) = (try TestDevice(), try TestDevice())
    let guest = try await harness.issueGuest(old)
    let ownGuest = try await harness.issueGuest(new)
    let offer = try await create(harness, guest.tokens)
    #expect(offer.expiresIn == 600)
    let seen = try await harness.transfers.inspectTransfer(
      IdentityV1.InspectTransferRequest(secret: .code(offer.code.lowercased()))
    )
    #expect(seen.isGuest && seen.accountMask.isEmpty && seen.deviceLabel == "Ada's phone" && seen.sameNetwork)
    let moved = try await redeem(harness, new, code: offer.code, keepOld: false)
    #expect(moved.subject == guest.subject)
    #expect(moved.storageNamespace == guest.storageNamespace)
    #expect(moved.previousSub == ownGuest.subject?.sub)
    #expect(moved.sessionsEnded == 1)
    #expect(try await !harness.isActive(guest.tokens.orThrow().accessToken))
    #expect(try await !harness.isActive(ownGuest.tokens.orThrow().accessToken))
    #expect(try await harness.isActive(moved.tokens.orThrow().accessToken))
    // From now on the new key is the guest's, and the old one is a stranger's.
    #expect(try await harness.issueGuest(new).subject == guest.subject)
    let stranger = try await harness.issueGuest(old)
    #expect(stranger.created && stranger.subject != guest.subject)
  }

  @Test("D8: with keep_old both phones are the same guest from then on")
  func keepsOld() async throws {
    let harness = try await IdentityHarness()
    let (old, new) = (try TestDevice(), try TestDevice())
    let guest = try await harness.issueGuest(old)
    let offer = try await create(harness, guest.tokens)
    let moved = try await redeem(harness, new, code: offer.code, keepOld: true)
    #expect(moved.sessionsEnded == 0)
    #expect(try await harness.isActive(guest.tokens.orThrow().accessToken))
    #expect(try await harness.issueGuest(old).subject == guest.subject)
    #expect(try await harness.issueGuest(new).subject == guest.subject)
  }

  @Test("D8: an account moves by the QR code's content, and is named masked before")
  func movesAccount() async throws {
    let harness = try await IdentityHarness()
    let guest = try await harness.issueGuest(try TestDevice())
    let account = try await harness.register("ada@example.com", guest: guest.tokens)
    let offer = try await create(harness, account.tokens)
    #expect(offer.qrPayload.hasPrefix("http://identity.test/t/1/"))
    let seen = try await harness.transfers.inspectTransfer(
      IdentityV1.InspectTransferRequest(secret: .qrPayload(offer.qrPayload))
    )
    #expect(!seen.isGuest && seen.accountMask.contains("*") && !seen.accountMask.contains("ada@"))
    let new = try TestDevice()
    let challenge = try await harness.challenge(for: new)
    let moved = try await harness.transfers.redeemTransfer(
      IdentityV1.RedeemTransferRequest(
        secret: .qrPayload(offer.qrPayload),
        clientID: new.clientID,
        device: try new.issueRequest(challenge).device,
        challenge: challenge,
        proof: try new.sign(
          "latchkey-transfer-proof-v1",
          [new.clientID, new.deviceID, challenge, offer.qrPayload]
        )
      )
    )
    #expect(moved.subject == account.subject && moved.profile?.name == "Ada")
    #expect(try await !harness.isActive(account.tokens.orThrow().accessToken))
    let hint = try await harness.issueGuest(new).lastLoginHint
    #expect(hint?.method == "transfer" && hint?.accountMask == seen.accountMask)
    for foreign in ["http://identity.test.evil/t/1/AAAAAAAAAAAAAAAAAAAAAA", "http://identity.test/t/1/", ""] {
      await expectRefusal(.invalidArgument, field: "qr_payload") {
        try await harness.transfers.inspectTransfer(
          IdentityV1.InspectTransferRequest(secret: .qrPayload(foreign))
        )
      }
    }
  }

  @Test("D8: a code holds once: of many phones at the same time one gets the guest, and its repeated call is the same")
  func once() async throws {
    let harness = try await IdentityHarness()
    let guest = try await harness.issueGuest(try TestDevice())
    let code = try await create(harness, guest.tokens).code
    var requests: [IdentityV1.RedeemTransferRequest] = []
    for _ in 0..<8 { requests.append(try await request(harness, try TestDevice(), code: code, keepOld: true)) }
    let all = requests
    let won = await successes(8, refusedWith: "TRANSFER_NOT_FOUND") { index in
      _ = try await harness.transfers.redeemTransfer(all[index])
    }
    #expect(won == 1)
    let other = try await create(harness, guest.tokens).code
    let same = try await request(harness, try TestDevice(), code: other, keepOld: true)
    let first = try await harness.transfers.redeemTransfer(same)
    let again = try await harness.transfers.redeemTransfer(same)
    #expect(first.tokens?.sid == again.tokens?.sid && first.tokens?.refreshToken == again.tokens?.refreshToken)
  }

  @Test("D8: a code expires after ten minutes, can be taken back, and a newer one voids it")
  func ends() async throws {
    let harness = try await IdentityHarness()
    let guest = try await harness.issueGuest(try TestDevice())
    let stranger = try await harness.issueGuest(try TestDevice())
    let first = try await create(harness, guest.tokens)
    let second = try await create(harness, guest.tokens)
    await expectRefusal(.notFound, "TRANSFER_NOT_FOUND") {
      try await redeem(harness, try TestDevice(), code: first.code, keepOld: true)
    }
    let cancel = IdentityV1.CancelTransferRequest(transferID: second.transferID)
    #expect(try await !harness.transfers.cancelTransfer(cancel, options: .bearer(stranger.tokens)).cancelled)
    #expect(try await harness.transfers.cancelTransfer(cancel, options: .bearer(guest.tokens)).cancelled)
    await expectRefusal(.notFound, "TRANSFER_NOT_FOUND") {
      try await redeem(harness, try TestDevice(), code: second.code, keepOld: true)
    }
    let third = try await create(harness, guest.tokens)
    harness.clock.advance(by: .seconds(599))
    _ = try await harness.transfers.inspectTransfer(IdentityV1.InspectTransferRequest(secret: .code(third.code)))
    harness.clock.advance(by: .seconds(1))
    await expectRefusal(.notFound, "TRANSFER_NOT_FOUND") {
      try await redeem(harness, try TestDevice(), code: third.code, keepOld: true)
    }
  }

  @Test("D8: the old device's word binds: what it did not agree to is refused, and five such tries void the code")
  func consent() async throws {
    let harness = try await IdentityHarness()
    let device = try TestDevice()
    let guest = try await harness.issueGuest(device)
    let offer = try await create(harness, guest.tokens, .init(oldDevice: .kept))
    await expectRefusal(.failedPrecondition, "TRANSFER_SAME_DEVICE") {
      try await redeem(harness, device, code: offer.code, keepOld: true)
    }
    for _ in 0..<4 {
      await expectRefusal(.permissionDenied, "TRANSFER_NOT_AGREED") {
        try await redeem(harness, try TestDevice(), code: offer.code, keepOld: false)
      }
    }
    #expect(try await harness.isActive(guest.tokens.orThrow().accessToken))
    _ = try await harness.transfers.inspectTransfer(IdentityV1.InspectTransferRequest(secret: .code(offer.code)))
    await expectRefusal(.permissionDenied, "TRANSFER_NOT_AGREED") {
      try await redeem(harness, try TestDevice(), code: offer.code, keepOld: false)
    }
    await expectRefusal(.notFound, "TRANSFER_NOT_FOUND") {
      try await redeem(harness, try TestDevice(), code: offer.code, keepOld: true)
    }
  }

  @Test("D8: a proof for issuing a guest moves nobody, and neither does one over another code")
  func proof() async throws {
    let harness = try await IdentityHarness()
    let guest = try await harness.issueGuest(try TestDevice())
    let offer = try await create(harness, guest.tokens)
    let new = try TestDevice()
    var forged = try await request(harness, new, code: offer.code, keepOld: true)
    forged.proof = try new.issueRequest(forged.challenge).proof
    await expectRefusal(.unauthenticated, "PROOF_INVALID") { [forged] in
      try await harness.transfers.redeemTransfer(forged)
    }
    var swapped = try await request(harness, new, code: "BBBB-BBBB-BBBB-BBBB", keepOld: true)
    swapped.secret = .code(offer.code)
    await expectRefusal(.unauthenticated, "PROOF_INVALID") { [swapped] in
      try await harness.transfers.redeemTransfer(swapped)
    }
    await expectRefusal(.invalidArgument, field: "code") {
      try await redeem(harness, new, code: "BCDF", keepOld: true)
    }
  }

  @Test("D8: codes are guessed only so often from one network")
  func guesses() async throws {
    let harness = try await IdentityHarness()
    for _ in 0..<Limits.transferTriesPerHour {
      await expectRefusal(.notFound, "TRANSFER_NOT_FOUND") {
        try await harness.transfers.inspectTransfer(
          IdentityV1.InspectTransferRequest(secret: .code("BBBBBBBBBBBBBBBB"))
        )
      }
    }
    let refusal = await expectRefusal(.resourceExhausted, "TOO_MANY_ATTEMPTS") {
      try await harness.transfers.inspectTransfer(
        IdentityV1.InspectTransferRequest(secret: .code("BBBBBBBBBBBBBBBB"))
      )
    }
    #expect(refusal?.details.retryAfter != nil)
  }

  @Test("S18: a moved account's session is unconfirmed where the old device stayed, and the owner's where it gave way")
  func unconfirmed() async throws {
    let harness = try await IdentityHarness()
    let account = try await harness.register("ada@example.com")
    let kept = try await redeem(
      harness,
      try TestDevice(),
      code: try await create(harness, account.tokens).code,
      keepOld: true
    )
    await expectRefusal(.permissionDenied, "SESSION_UNCONFIRMED") {
      try await harness.logOut(kept.tokens, scope: .global)
    }
    await expectRefusal(.permissionDenied, "SESSION_UNCONFIRMED") { try await create(harness, kept.tokens) }
    let moved = try await redeem(
      harness,
      try TestDevice(),
      code: try await create(harness, account.tokens).code,
      keepOld: false
    )
    #expect(try await harness.logOut(moved.tokens, scope: .global).sessionsEnded == 2)
  }

  @Test("D8: an offer outlives a restart, and neither code nor reference is in the database")
  func restart() async throws {
    let first = try await IdentityHarness()
    let guest = try await first.issueGuest(try TestDevice())
    let offer = try await create(first, guest.tokens)
    let harness = try await first.restarted()
    let letters = Array(offer.code.utf8.filter { $0 != UInt8(ascii: "-") })
    let reference = try Base64URL.decode(String(offer.qrPayload.suffix(22))).orThrow()
    for file in ["identity.db", "identity.db-wal"] {
      let bytes = FileLook.contents(of: "\(harness.folder.path)/\(file)")
      #expect(!bytes.contains(letters))
      #expect(!bytes.contains(reference))
    }
    let moved = try await redeem(harness, try TestDevice(), code: offer.code, keepOld: false)
    #expect(moved.subject == guest.subject)
  }
}
