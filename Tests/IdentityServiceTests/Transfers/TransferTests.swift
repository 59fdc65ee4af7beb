import Cryptography
import GRPC
import LatchkeyModel
import LatchkeyProtos
import Storage
import StorageSQLite
import Synchronization
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

  @Test("D8: who guesses codes keeps nobody of their network from a QR code's, and right codes count for nobody")
  func sharedNetwork() async throws {
    let harness = try await IdentityHarness()
    let device = try TestDevice()
    let guest = try await harness.issueGuest(device)
    let offer = try await create(harness, guest.tokens)
    func inspect(
      _ secret: IdentityV1.InspectTransferRequest.Secret
    ) async throws -> IdentityV1.InspectTransferResponse {
      try await harness.transfers.inspectTransfer(IdentityV1.InspectTransferRequest(secret: secret))
    }
    for _ in 0...Limits.transferTriesPerHour {
      _ = try await inspect(.code(offer.code))
      await expectRefusal(.failedPrecondition, "TRANSFER_SAME_DEVICE") {
        try await redeem(harness, device, code: offer.code, keepOld: true)
      }
    }
    for _ in 0..<Limits.transferTriesPerHour {
      await expectRefusal(.notFound, "TRANSFER_NOT_FOUND") { try await inspect(.code("BBBBBBBBBBBBBBBB")) }
    }
    await expectRefusal(.resourceExhausted, "TOO_MANY_ATTEMPTS") { try await inspect(.code(offer.code)) }
    await expectRefusal(.resourceExhausted, "TOO_MANY_ATTEMPTS") {
      try await redeem(harness, try TestDevice(), code: offer.code, keepOld: true)
    }
    let seen = try await inspect(.qrPayload(offer.qrPayload))
    #expect(seen.isGuest)
    let new = try await requestByQR(harness, try TestDevice(), offer.qrPayload)
    let moved = try await harness.transfers.redeemTransfer(new)
    #expect(moved.subject == guest.subject)
  }

  @Test("D8, R26: a QR code's content that nobody made is looked for as often as it comes, and changes nothing")
  func unknownPayload() async throws {
    let folder = try TemporaryFolder()
    let database = try SQLiteDatabase.open(path: "\(folder.path)/identity.db", schema: .identity, isPatient: true)
    let storage = CountedStorage(SQLiteIdentityStorage(database))
    let harness = try await IdentityHarness(folder: folder, storage: storage)
    let payload = TransferPayload(
      issuer: harness.core.tokens.issuer, reference: QRReference(from: harness.core.random)
    ).text
    let made = try await requestByQR(harness, try TestDevice(), payload)
    let before = storage.changes
    for _ in 0...Limits.transferTriesPerHour {
      await expectRefusal(.notFound, "TRANSFER_NOT_FOUND") {
        try await harness.transfers.inspectTransfer(IdentityV1.InspectTransferRequest(secret: .qrPayload(payload)))
      }
      await expectRefusal(.notFound, "TRANSFER_NOT_FOUND") { try await harness.transfers.redeemTransfer(made) }
    }
    #expect(storage.changes == before)
    await database.close()
  }

  @Test("D8: a typed code that comes as a QR code's content is none, so that each guess at one counts")
  func typedAsPayload() async throws {
    let harness = try await IdentityHarness()
    let guest = try await harness.issueGuest(try TestDevice())
    let offer = try await create(harness, guest.tokens)
    let letters = offer.code.utf8.filter { $0 != UInt8(ascii: "-") }
    let payload = "\(harness.core.tokens.issuer)/t/1/\(Base64URL.encode(Array(letters)))"
    await expectRefusal(.notFound, "TRANSFER_NOT_FOUND") {
      try await harness.transfers.inspectTransfer(IdentityV1.InspectTransferRequest(secret: .qrPayload(payload)))
    }
    let made = try await requestByQR(harness, try TestDevice(), payload)
    await expectRefusal(.notFound, "TRANSFER_NOT_FOUND") { try await harness.transfers.redeemTransfer(made) }
    let moved = try await redeem(harness, try TestDevice(), code: offer.code, keepOld: true)
    #expect(moved.subject == guest.subject)
  }

  private func requestByQR(
    _ harness: IdentityHarness, _ device: TestDevice, _ payload: String
  ) async throws -> IdentityV1.RedeemTransferRequest {
    let challenge = try await harness.challenge(for: device)
    return IdentityV1.RedeemTransferRequest(
      secret: .qrPayload(payload),
      clientID: device.clientID,
      device: try device.issueRequest(challenge).device,
      challenge: challenge,
      proof: try device.sign("latchkey-transfer-proof-v1", [device.clientID, device.deviceID, challenge, payload])
    )
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

/// An engine that counts what is asked of it as a change.
private final class CountedStorage: IdentityStorage {
  private let near: SQLiteIdentityStorage
  private let count = Mutex(0)

  init(_ near: SQLiteIdentityStorage) { self.near = near }

  var changes: Int { count.withLock { $0 } }

  func write<Operation: IdentityOperation>(
    _ operation: Operation
  ) async throws(StorageError) -> Operation.Outcome {
    count.withLock { $0 += 1 }
    return try await near.write(operation)
  }

  func read<Operation: IdentityOperation>(
    _ operation: Operation
  ) async throws(StorageError) -> Operation.Outcome {
    try await near.read(operation)
  }
}
