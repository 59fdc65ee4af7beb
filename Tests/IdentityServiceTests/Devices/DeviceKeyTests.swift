import Cryptography
import GRPC
import LatchkeyModel
import LatchkeyProtos
import Testing

@testable import IdentityService

@Suite("Device keys: clones and replacements")
struct DeviceKeyTests {
  /// Both proofs that a device which held `old` now holds `new`.
  private func proofs(
    _ harness: IdentityHarness, _ old: TestDevice, _ new: TestDevice
  ) async throws -> (challenge: String, old: [UInt8], new: [UInt8]) {
    let challenge = try await harness.challenge(for: old)
    let parts = [new.clientID, new.deviceID, challenge]
    return (
      challenge, try old.sign("latchkey-rotate-key-v1", parts + [new.key.publicKey.thumbprint]),
      try new.sign("latchkey-rotated-key-v1", parts + [old.key.publicKey.thumbprint])
    )
  }

  private func rotation(
    _ harness: IdentityHarness, _ old: TestDevice, _ new: TestDevice
  ) async throws -> IdentityV1.RotateDeviceKeyRequest {
    let proofs = try await proofs(harness, old, new)
    return IdentityV1.RotateDeviceKeyRequest(
      clientID: new.clientID, oldKey: old.jwk, device: try new.issueRequest("x").device, challenge: proofs.challenge,
      oldProof: proofs.old, newProof: proofs.new)
  }

  private func resolution(
    _ harness: IdentityHarness, _ choice: IdentityV1.CloneChoice, _ old: TestDevice, _ new: TestDevice
  ) async throws -> IdentityV1.ResolveCloneRequest {
    let proofs = try await proofs(harness, old, new)
    return IdentityV1.ResolveCloneRequest(
      clientID: new.clientID, choice: choice, oldKey: old.jwk, device: try new.issueRequest("x").device,
      challenge: proofs.challenge, oldProof: proofs.old, newProof: proofs.new)
  }

  @Test("D3: a key whose counter repeats or goes far back is on two devices; both are told, until one of them chooses")
  func detects() async throws {
    for stale: Int64 in [105, 103, 41, 0] {
      let harness = try await IdentityHarness()
      let device = try TestDevice()
      let guest = try await harness.issueGuest(device, counter: 103)
      #expect(try await harness.issueGuest(device, counter: 105).subject == guest.subject)
      await expectRefusal(.failedPrecondition, "DEVICE_CLONED") {
        try await harness.issueGuest(device, counter: stale)
      }
      await expectRefusal(.failedPrecondition, "DEVICE_CLONED") {
        try await harness.issueGuest(device, counter: 106)
      }
      let events = try await harness.audit.listAuditEvents(
        IdentityV1.ListAuditEventsRequest(sub: guest.subject?.sub ?? ""), options: .service
      ).events
      #expect(events.contains { $0.kind == "device_cloned" && $0.detail == "counter \(stale) after 105" })
    }
  }

  @Test("D3: proofs that overtake each other make no clone, and each number is taken once")
  func overtaken() async throws {
    let harness = try await IdentityHarness()
    let device = try TestDevice()
    let guest = try await harness.issueGuest(device, counter: 2)
    for counter: Int64 in [1, 70, 69, 7, 71] {
      #expect(try await harness.issueGuest(device, counter: counter).subject == guest.subject)
    }
    await expectRefusal(.failedPrecondition, "DEVICE_CLONED") { try await harness.issueGuest(device, counter: 69) }
  }

  @Test("D3: who goes on with a key after it was cloned begins to count anew, though it was behind")
  func countsAnew() async throws {
    for choice in [IdentityV1.CloneChoice.split, .transfer] {
      let harness = try await IdentityHarness()
      let (device, new) = (try TestDevice(), try TestDevice())
      _ = try await harness.issueGuest(device, counter: 9)
      await expectRefusal(.failedPrecondition, "DEVICE_CLONED") { try await harness.issueGuest(device, counter: 9) }
      let request = try await resolution(harness, choice, device, new)
      _ = try await harness.devices.resolveClone(request)
      _ = try await harness.issueGuest(device, counter: 4)
      // Asked again because the answer was lost: done, not overtaken by another device.
      await expectRefusal(.alreadyExists, "KEY_IN_USE") {
        try await harness.devices.resolveClone(try await resolution(harness, choice, device, new))
      }
    }
  }

  @Test("D3: an app that counts nothing goes on as before, and a counter is part of what is signed")
  func counters() async throws {
    let harness = try await IdentityHarness()
    let device = try TestDevice()
    let guest = try await harness.issueGuest(device)
    #expect(try await harness.issueGuest(device).subject == guest.subject)
    var forged = try device.issueRequest(try await harness.challenge(for: device), counter: 7)
    forged.counter = 8
    await expectRefusal(.unauthenticated, "PROOF_INVALID") { [forged] in try await harness.guests.issueGuest(forged) }
    await expectRefusal(.invalidArgument, field: "counter") { try await harness.issueGuest(device, counter: -1) }
    #expect(try await harness.issueGuest(device, counter: 1).subject == guest.subject)
  }

  @Test("D3: with SPLIT the caller becomes a new guest and the other goes on")
  func split() async throws {
    let harness = try await IdentityHarness()
    let (device, new) = (try TestDevice(), try TestDevice())
    let guest = try await harness.issueGuest(device, counter: 5)
    await expectRefusal(.failedPrecondition, "DEVICE_NOT_CLONED") {
      try await harness.devices.resolveClone(try await resolution(harness, .split, device, new))
    }
    await expectRefusal(.failedPrecondition, "DEVICE_CLONED") { try await harness.issueGuest(device, counter: 5) }
    let answer = try await harness.devices.resolveClone(try await resolution(harness, .split, device, new))
    #expect(answer.created && answer.subject != guest.subject)
    #expect(try await harness.isActive(guest.tokens.orThrow().accessToken))
    #expect(try await harness.issueGuest(device, counter: 6).subject == guest.subject)
    #expect(try await harness.issueGuest(new).subject == answer.subject)
  }

  @Test("D3: with TRANSFER the guest moves to the caller's new key, and every session under the old one ends")
  func transfer() async throws {
    let harness = try await IdentityHarness()
    let (device, new) = (try TestDevice(), try TestDevice())
    let guest = try await harness.issueGuest(device, counter: 5)
    await expectRefusal(.failedPrecondition, "DEVICE_CLONED") { try await harness.issueGuest(device, counter: 5) }
    var forged = try await resolution(harness, .transfer, device, new)
    forged.oldProof = forged.newProof
    await expectRefusal(.unauthenticated, "PROOF_INVALID") { [forged] in
      try await harness.devices.resolveClone(forged)
    }
    let answer = try await harness.devices.resolveClone(try await resolution(harness, .transfer, device, new))
    #expect(!answer.created && answer.subject == guest.subject)
    #expect(try await !harness.isActive(guest.tokens.orThrow().accessToken))
    #expect(try await harness.isActive(answer.tokens.orThrow().accessToken))
    #expect(try await harness.issueGuest(new).subject == guest.subject)
    let other = try await harness.issueGuest(device, counter: 6)
    #expect(other.created && other.subject != guest.subject)
  }

  @Test("D3: of two devices that choose at the same time, one gets the guest")
  func race() async throws {
    let harness = try await IdentityHarness()
    let device = try TestDevice()
    _ = try await harness.issueGuest(device, counter: 5)
    await expectRefusal(.failedPrecondition, "DEVICE_CLONED") { try await harness.issueGuest(device, counter: 5) }
    var requests: [IdentityV1.ResolveCloneRequest] = []
    for _ in 0..<8 { requests.append(try await resolution(harness, .transfer, device, try TestDevice())) }
    let all = requests
    let won = await successes(8, refusedWith: "DEVICE_NOT_CLONED") { index in
      _ = try await harness.devices.resolveClone(all[index])
    }
    #expect(won == 1)
  }

  @Test("D3: a key is replaced by a new one: guest, sessions and the last-login hint go on under it")
  func rotates() async throws {
    let harness = try await IdentityHarness()
    let (old, new) = (try TestDevice(), try TestDevice())
    let guest = try await harness.issueGuest(old, counter: 9)
    let account = try await harness.register("ada@example.com", guest: guest.tokens)
    let ownGuest = try await harness.issueGuest(old, counter: 10)
    let request = try await rotation(harness, old, new)
    let answer = try await harness.devices.rotateDeviceKey(request, options: .bearer(account.tokens))
    #expect(answer.keyThumbprint == new.key.publicKey.thumbprint && answer.sessionsMoved == 2)
    #expect(try await harness.isActive(account.tokens.orThrow().accessToken))
    let devices = try await harness.devices.listDevices(
      IdentityV1.ListDevicesRequest(), options: .bearer(account.tokens)
    ).devices
    #expect(devices.map(\.keyThumbprint) == [answer.keyThumbprint] && devices[0].current)
    // A new key begins to count anew.
    let again = try await harness.issueGuest(new, counter: 1)
    #expect(again.subject == ownGuest.subject && again.lastLoginHint?.method == "password")
    let stranger = try await harness.issueGuest(old, counter: 11)
    #expect(stranger.created && stranger.lastLoginHint == nil)
    await expectRefusal(.permissionDenied, "OTHER_DEVICE") {
      try await harness.devices.rotateDeviceKey(request, options: .bearer(account.tokens))
    }
  }

  @Test("R39: a guest whose merge is taken back is found by the key that its device has by then")
  func rotatedMeanwhile() async throws {
    let harness = try await IdentityHarness()
    let (old, new) = (try TestDevice(), try TestDevice())
    let account = try await harness.register("ada@example.com")
    let guest = try await harness.issueGuest(old)
    let signedIn = try await harness.signIn("ada@example.com", guest: guest.tokens, onConflict: .switch)
    let (guestSub, accountSub) = (guest.subject?.sub ?? "", account.subject?.sub ?? "")
    _ = try await harness.grants.completeMigration(
      IdentityV1.CompleteMigrationRequest(migrationID: "m", guestSub: guestSub, targetSub: accountSub),
      options: .service)
    _ = try await harness.devices.rotateDeviceKey(
      try await rotation(harness, old, new), options: .bearer(signedIn.tokens))
    _ = try await harness.grants.restoreGuest(
      IdentityV1.RestoreGuestRequest(migrationID: "m", guestSub: guestSub, targetSub: accountSub), options: .service)
    #expect(try await harness.issueGuest(new).subject?.sub == guestSub)
    #expect(try await harness.issueGuest(old).created)
  }

  /// An account with a session on `device`, which a QR code bound to it.
  private func bound(
    _ device: TestDevice, _ harness: IdentityHarness
  ) async throws -> (owner: CommonV1.TokenSet?, device: CommonV1.TokenSet?) {
    let account = try await harness.register("ada@example.com")
    let request = IdentityV1.IssueForQrRequest(
      qrSessionID: "qr-1", sub: account.subject?.sub ?? "", confirmedBySid: account.tokens?.sid ?? "",
      clientID: "app.test", deviceKey: device.jwk, kind: .bindDevice)
    _ = try await harness.grants.issueForQr(request, options: .service)
    // On the same device, and not bound to its key, so that the test needs no proofs of possession.
    let guest = try await harness.issueGuest(device, counter: 5)
    let second = try await harness.signIn("ada@example.com", guest: guest.tokens, onConflict: .switch)
    return (account.tokens, second.tokens)
  }

  private func unlock(_ harness: IdentityHarness, _ device: TestDevice) async throws {
    let proof = try await harness.proof(by: device.key, for: "latchkey-unlock-v1")
    _ = try await harness.authenticate(.deviceKey(IdentityV1.DeviceKeyCredential(proof: proof)))
  }

  private func bindings(_ harness: IdentityHarness, _ tokens: CommonV1.TokenSet?) async throws -> [String] {
    try await harness.devices.listDevices(IdentityV1.ListDevicesRequest(), options: .bearer(tokens)).devices
      .filter { $0.binding != nil }.map(\.keyThumbprint)
  }

  @Test("D3: a bound device that replaces its key stays bound, by the new key alone")
  func rotatesBinding() async throws {
    let harness = try await IdentityHarness()
    let (old, new) = (try TestDevice(), try TestDevice())
    let tokens = try await bound(old, harness)
    _ = try await harness.devices.rotateDeviceKey(
      try await rotation(harness, old, new), options: .bearer(tokens.device))
    #expect(try await bindings(harness, tokens.owner) == [new.key.publicKey.thumbprint])
    try await unlock(harness, new)
    await expectRefusal(.unauthenticated, "INVALID_CREDENTIALS") { try await unlock(harness, old) }
  }

  @Test("D3: a bound device whose key was cloned is bound no longer, whoever takes the new key")
  func clonedBinding() async throws {
    let harness = try await IdentityHarness()
    let (device, new) = (try TestDevice(), try TestDevice())
    let tokens = try await bound(device, harness)
    await expectRefusal(.failedPrecondition, "DEVICE_CLONED") { try await harness.issueGuest(device, counter: 5) }
    _ = try await harness.devices.resolveClone(try await resolution(harness, .transfer, device, new))
    #expect(try await bindings(harness, tokens.owner).isEmpty)
    for key in [device, new] {
      await expectRefusal(.unauthenticated, "INVALID_CREDENTIALS") { try await unlock(harness, key) }
    }
  }

  @Test("R40: only the device itself replaces its key, and not by a key that somebody uses")
  func rotationRefusals() async throws {
    let harness = try await IdentityHarness()
    let (old, new, other) = (try TestDevice(), try TestDevice(), try TestDevice())
    let guest = try await harness.issueGuest(old)
    let stranger = try await harness.issueGuest(other)
    await expectRefusal(.permissionDenied, "OTHER_DEVICE") {
      try await harness.devices.rotateDeviceKey(
        try await rotation(harness, old, new), options: .bearer(stranger.tokens))
    }
    await expectRefusal(.alreadyExists, "KEY_IN_USE") {
      try await harness.devices.rotateDeviceKey(
        try await rotation(harness, old, other), options: .bearer(guest.tokens))
    }
    await expectRefusal(.invalidArgument, field: "device.public_key") {
      try await harness.devices.rotateDeviceKey(
        try await rotation(harness, old, old), options: .bearer(guest.tokens))
    }
    await expectRefusal(.invalidArgument, field: "old_key") {
      try await harness.devices.rotateDeviceKey(
        IdentityV1.RotateDeviceKeyRequest(clientID: "app.test"), options: .bearer(guest.tokens))
    }
  }
}
