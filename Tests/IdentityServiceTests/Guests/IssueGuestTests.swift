import Cryptography
import GRPC
import LatchkeyModel
import LatchkeyProtos
import Testing

@testable import IdentityService

@Suite("Guests")
struct IssueGuestTests {
  @Test("G1, D1: the first launch gets a guest without any sign-up, and learns that nobody logged in here")
  func firstLaunch() async throws {
    let harness = try await IdentityHarness()
    let guest = try await harness.issueGuest(try TestDevice())
    #expect(guest.created)
    #expect(guest.lastLoginHint == nil)
    #expect(guest.subject?.isGuest == true)
    #expect(SubjectID(guest.subject?.sub ?? "") != nil)
    #expect(guest.tokens?.tokenType == "Bearer")
    #expect(guest.tokens?.scope == "basic")
    #expect(guest.tokens?.expiresIn == 900)
    #expect(guest.tokens?.serverTime?.seconds == harness.clock.now().secondsSinceEpoch)
  }

  @Test("G2, D5: one device key has one guest, however often it asks")
  func idempotent() async throws {
    let harness = try await IdentityHarness()
    let device = try TestDevice()
    let first = try await harness.issueGuest(device)
    let second = try await harness.issueGuest(device)
    #expect(first.created && !second.created)
    #expect(first.subject?.sub == second.subject?.sub)
    let other = try await harness.issueGuest(try TestDevice())
    #expect(other.subject?.sub != first.subject?.sub)
  }

  @Test("G2, D4: fifty calls at once make one guest with one live session")
  func concurrent() async throws {
    let harness = try await IdentityHarness()
    let device = try TestDevice()
    let answers = try await withThrowingTaskGroup(of: IdentityV1.IssueGuestResponse.self) { group in
      for _ in 0..<50 { group.addTask { try await harness.issueGuest(device) } }
      return try await group.reduce(into: []) { $0.append($1) }
    }
    #expect(Set(answers.map { $0.subject?.sub }).count == 1)
    #expect(answers.filter(\.created).count == 1)
    var live = 0
    for answer in answers where try await harness.isActive(try answer.tokens.orThrow().accessToken) { live += 1 }
    #expect(live == 1)
  }

  @Test("D4: a guest survives a restart, and a lost answer makes no second one")
  func restart() async throws {
    var harness = try await IdentityHarness()
    let device = try TestDevice()
    let lost = try await harness.issueGuest(device)
    harness = try await harness.restarted()
    let again = try await harness.issueGuest(device)
    #expect(!again.created && again.subject?.sub == lost.subject?.sub)
    #expect(try await harness.isActive(try again.tokens.orThrow().accessToken))
  }

  @Test("G4: the hint says how the last account signed in, masked")
  func lastLogin() async throws {
    let harness = try await IdentityHarness()
    let device = try TestDevice()
    let guest = try await harness.issueGuest(device)
    _ = try await harness.register("ada@example.com", guest: guest.tokens)
    let next = try await harness.issueGuest(device)
    #expect(next.created)
    #expect(next.lastLoginHint?.method == "password")
    #expect(next.lastLoginHint?.accountMask == "a***@e***.com")
    #expect(next.lastLoginHint?.at?.seconds == harness.clock.now().secondsSinceEpoch)
  }

  @Test("G5: the storage namespace belongs to the subject: the same after promotion, another for another guest")
  func storageNamespace() async throws {
    let harness = try await IdentityHarness()
    let device = try TestDevice()
    let guest = try await harness.issueGuest(device)
    #expect(guest.storageNamespace.utf8.count == 32)
    let account = try await harness.register("ada@example.com", guest: guest.tokens)
    #expect(account.storageNamespace == guest.storageNamespace)
    #expect(try await harness.issueGuest(device).storageNamespace != guest.storageNamespace)
  }

  @Test("D7: a reinstalled app with its old key is the same guest")
  func reinstalled() async throws {
    let harness = try await IdentityHarness()
    var device = try TestDevice()
    let before = try await harness.issueGuest(device)
    device.deviceID = "11111111-2222-4333-8444-555555555555"
    let after = try await harness.issueGuest(device, reinstalled: true)
    #expect(!after.created && after.subject?.sub == before.subject?.sub)
  }

  @Test("D2: a hardware identifier is refused, with the field's path")
  func hardwareID() async throws {
    let harness = try await IdentityHarness()
    var device = try TestDevice()
    device.deviceID = "490154203237518"
    await expectRefusal(.invalidArgument, field: "device.device_id") { try await harness.issueGuest(device) }
  }

  @Test("R23: a challenge works once: a replayed request is refused, also after a restart")
  func replay() async throws {
    var harness = try await IdentityHarness()
    let device = try TestDevice()
    let request = try device.issueRequest(try await harness.challenge(for: device))
    _ = try await harness.guests.issueGuest(request)
    await expectRefusal(.failedPrecondition, "CHALLENGE_INVALID") { try await harness.guests.issueGuest(request) }
    harness = try await harness.restarted()
    await expectRefusal(.failedPrecondition, "CHALLENGE_INVALID") { try await harness.guests.issueGuest(request) }
  }

  @Test("R23: of thirty concurrent uses of one challenge exactly one succeeds")
  func concurrentReplay() async throws {
    let harness = try await IdentityHarness()
    let device = try TestDevice()
    let request = try device.issueRequest(try await harness.challenge(for: device))
    let succeeded = await successes(30, refusedWith: "CHALLENGE_INVALID") { _ in
      _ = try await harness.guests.issueGuest(request)
    }
    #expect(succeeded == 1)
  }

  @Test("R23: a challenge survives a restart, and expires at its second")
  func expiry() async throws {
    var harness = try await IdentityHarness()
    let device = try TestDevice()
    let kept = try await harness.challenge(for: device)
    let late = try await harness.challenge(for: device)
    harness = try await harness.restarted()
    harness.clock.advance(by: .seconds(299))
    _ = try await harness.guests.issueGuest(device.issueRequest(kept))
    harness.clock.advance(by: .seconds(1))
    await expectRefusal(.failedPrecondition, "CHALLENGE_INVALID") {
      try await harness.guests.issueGuest(device.issueRequest(late))
    }
  }

  @Test("R23: a challenge is one key's and one client's, and no bit of it can be changed")
  func binding() async throws {
    let harness = try await IdentityHarness()
    let device = try TestDevice()
    let challenge = try await harness.challenge(for: device)
    await expectRefusal(.failedPrecondition, "CHALLENGE_INVALID") {
      try await harness.guests.issueGuest(TestDevice().issueRequest(challenge))
    }
    var otherClient = device
    otherClient.clientID = "app.other"
    await expectRefusal(.failedPrecondition, "CHALLENGE_INVALID") {
      try await harness.guests.issueGuest(otherClient.issueRequest(challenge))
    }
    let bytes = try Base64URL.decode(challenge).orThrow()
    #expect(bytes.count == 32)
    for index in bytes.indices {
      var changed = bytes
      changed[index] ^= 1
      await expectRefusal(.failedPrecondition, "CHALLENGE_INVALID") {
        try await harness.guests.issueGuest(device.issueRequest(Base64URL.encode(changed)))
      }
    }
  }

  @Test("D3: a proof by another key, for another device id, or altered is refused")
  func proofs() async throws {
    let harness = try await IdentityHarness()
    let device = try TestDevice()
    let challenge = try await harness.challenge(for: device)
    var forged = try device.issueRequest(challenge)
    forged.proof = try TestDevice().issueRequest(challenge).proof
    await expectRefusal(.unauthenticated, "PROOF_INVALID") { try await harness.guests.issueGuest(forged) }
    var otherID = try device.issueRequest(challenge)
    otherID.device?.deviceID = "11111111-2222-4333-8444-555555555555"
    await expectRefusal(.unauthenticated, "PROOF_INVALID") { try await harness.guests.issueGuest(otherID) }
    var altered = try device.issueRequest(challenge)
    altered.proof[40] ^= 1
    await expectRefusal(.unauthenticated, "PROOF_INVALID") { try await harness.guests.issueGuest(altered) }
    var zeros = try device.issueRequest(challenge)
    zeros.proof = [UInt8](repeating: 0, count: 64)
    await expectRefusal(.unauthenticated, "PROOF_INVALID") { try await harness.guests.issueGuest(zeros) }
    // None of them used the challenge up.
    #expect(try await harness.guests.issueGuest(device.issueRequest(challenge)).created)
  }

  @Test(
    "Every invalid field is named by its path",
    arguments: [
      "client_id", "device", "device.device_id", "device.label", "device.public_key", "device.public_key.kty",
      "device.public_key.crv", "device.public_key.x", "device.public_key.y", "challenge", "proof", "pow_solution",
      "locale",
    ])
  func invalidFields(field: String) async throws {
    let harness = try await IdentityHarness()
    let device = try TestDevice()
    var request = try device.issueRequest(try await harness.challenge(for: device))
    switch field {
    case "client_id": request.clientID = "Not A Client"
    case "device": request.device = nil
    case "device.device_id": request.device?.deviceID = ""
    case "device.label": request.device?.label = "two\nlines"
    case "device.public_key":
      request.device?.publicKey?.x = Base64URL.encode([UInt8](repeating: 1, count: 32))
    case "device.public_key.kty": request.device?.publicKey?.kty = "RSA"
    case "device.public_key.crv": request.device?.publicKey?.crv = "P-384"
    case "device.public_key.x": request.device?.publicKey?.x = "short"
    case "device.public_key.y": request.device?.publicKey?.y = "***"
    case "challenge": request.challenge = ""
    case "proof": request.proof = [1, 2, 3]
    case "pow_solution": request.powSolution = [UInt8](repeating: 0, count: 33)
    default: request.locale = "not a locale"
    }
    let invalid = request
    await expectRefusal(.invalidArgument, field: field) { try await harness.guests.issueGuest(invalid) }
  }

  @Test("R54: beyond the bound on guests new ones are refused, and whoever is known is served")
  func fullOfGuests() async throws {
    let harness = try await IdentityHarness(guestLimit: 3)
    let known = try TestDevice()
    _ = try await harness.issueGuest(known)
    let account = try await harness.register("ada@example.com")
    for _ in 0..<2 { _ = try await harness.issueGuest(try TestDevice()) }
    await expectRefusal(.resourceExhausted, "GUESTS_FULL") { try await harness.issueGuest(try TestDevice()) }
    #expect(try await !harness.issueGuest(known).created)
    _ = try await harness.signIn("ada@example.com")
    _ = try await harness.refresh(account.tokens)
    // Counted anew after a restart, and there is room again once unused guests are gone.
    harness.clock.advance(by: Limits.guestRetention + .seconds(1))
    await harness.rooms.upkeep.guests.keepOnce()
    _ = try await harness.issueGuest(try TestDevice())
  }
}
