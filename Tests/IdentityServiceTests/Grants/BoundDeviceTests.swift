import Cryptography
import GRPC
import LatchkeyModel
import LatchkeyProtos
import Testing

@testable import IdentityService

/// A television that a QR code made one of an account's devices.
@Suite("Devices that a QR code binds")
struct BoundDeviceTests {
  private let harness: IdentityHarness
  private let television: TestDevice
  private let account: IdentityV1.RegisterResponse
  private let phone: TestDevice

  init() async throws {
    harness = try await IdentityHarness()
    television = try TestDevice()
    phone = try TestDevice()
    let guest = try await harness.issueGuest(phone)
    account = try await harness.register("ada@example.com", guest: guest.tokens)
  }

  private func bind(
    to owner: IdentityV1.RegisterResponse, by qrSession: String = "qr-1", scope: String = ""
  ) async throws -> IdentityV1.IssueForQrResponse {
    try await harness.grants.issueForQr(
      IdentityV1.IssueForQrRequest(
        qrSessionID: qrSession, sub: owner.subject?.sub ?? "", confirmedBySid: owner.tokens?.sid ?? "",
        clientID: "app.test", scope: scope, deviceLabel: "Television", platform: "tv", deviceKey: television.jwk,
        kind: .bindDevice, confirmerAuthTime: .init(harness.clock.now())),
      options: .service)
  }

  private func comeBack(_ key: P256PrivateKey? = nil) async throws -> CommonV1.TokenSet {
    let proof = try await harness.proof(by: key ?? television.key, for: "latchkey-unlock-v1")
    return try await harness.authenticate(.deviceKey(IdentityV1.DeviceKeyCredential(proof: proof))).tokens.orThrow()
  }

  private func listed(_ tokens: CommonV1.TokenSet?) async throws -> IdentityV1.ListedDevice? {
    try await harness.devices.listDevices(IdentityV1.ListDevicesRequest(), options: .bearer(tokens)).devices
      .first { $0.keyThumbprint == television.key.publicKey.thumbprint }
  }

  /// The phone's tokens, however long ago it signed in.
  private func owner() async throws -> CommonV1.TokenSet? { try await harness.signIn("ada@example.com").tokens }

  @Test("Q12: a bound device stays in the list without a session, with when and on what it was agreed to")
  func staysListed() async throws {
    let bound = harness.clock.now()
    let first = try await bind(to: account)
    #expect(first.tokens?.cnfJkt == television.key.publicKey.thumbprint)
    #expect(try await listed(account.tokens)?.sessions == 1)
    harness.clock.advance(by: .seconds(40 * 86_400))
    let device = try await listed(owner()).orThrow()
    #expect(device.sessions == 0 && device.label == "Television" && device.platform == "tv")
    let binding = try device.binding.orThrow()
    #expect(binding.boundAt == GoogleProtobuf.Timestamp(bound))
    #expect(binding.confirmedByLabel == "Ada's phone")
    #expect(binding.confirmedByKey == phone.key.publicKey.thumbprint)
    #expect(binding.scope == Scope.screen.description)
    let label = IdentityV1.RenameDeviceRequest(keyThumbprint: device.keyThumbprint, label: "Living room")
    _ = try await harness.devices.renameDevice(label, options: .bearer(owner()))
    #expect(try await listed(owner())?.label == "Living room")
  }

  @Test("S16: its key alone signs it in again, with tokens of that key and no more than was agreed to")
  func comesBack() async throws {
    _ = try await bind(to: account, scope: "basic")
    harness.clock.advance(by: .seconds(40 * 86_400))
    let tokens = try await comeBack()
    #expect(tokens.scope == "basic" && tokens.cnfJkt == television.key.publicKey.thumbprint)
    let session = try await harness.core.session(try SessionID(tokens.sid).orThrow()).orThrow()
    #expect(session.method == .qr && session.subject.description == account.subject?.sub)
    #expect(try await listed(owner())?.sessions == 1)
    let stranger = try TestDevice().key
    await expectRefusal(.unauthenticated, "INVALID_CREDENTIALS") { try await comeBack(stranger) }
  }

  @Test("S18, S11: coming back by its key proves nobody: it counts as unconfirmed and its auth_time stays")
  func provesNobody() async throws {
    let bound = harness.clock.now()
    _ = try await bind(to: account)
    harness.clock.advance(by: .seconds(3600))
    let session = try await harness.core.session(try SessionID(try await comeBack().sid).orThrow()).orThrow()
    #expect(session.authenticatedAt == bound)
    #expect(!session.isConfirmed)
  }

  @Test("R15: removing it ends its sessions and its key's way in at once")
  func removal() async throws {
    let first = try await bind(to: account)
    let removal = IdentityV1.RemoveDeviceRequest(keyThumbprint: television.key.publicKey.thumbprint)
    let answer = try await harness.devices.removeDevice(removal, options: .bearer(account.tokens))
    #expect(answer.sessionsEnded == 1)
    #expect(try await !harness.isActive(try first.tokens.orThrow().accessToken))
    #expect(try await listed(account.tokens) == nil)
    await expectRefusal(.unauthenticated, "INVALID_CREDENTIALS") { try await comeBack() }
  }

  @Test("Q12: bound by another account, it leaves the first one's list, and the first one's sessions on it end")
  func changesHands() async throws {
    let first = try await bind(to: account)
    let other = try await harness.register("grace@example.com")
    let second = try await bind(to: other, by: "qr-2")
    #expect(try await !harness.isActive(try first.tokens.orThrow().accessToken))
    #expect(try await harness.isActive(try second.tokens.orThrow().accessToken))
    #expect(try await listed(account.tokens) == nil)
    #expect(try await listed(other.tokens)?.binding != nil)
    let back = try await harness.core.session(try SessionID(try await comeBack().sid).orThrow())
    #expect(back?.subject.description == other.subject?.sub)
  }

  @Test("Q12: a key that its owner enrolled by themselves is not taken from them by a code")
  func ownEnrolmentStands() async throws {
    let guest = try await harness.issueGuest(television)
    let other = try await harness.register("grace@example.com", guest: guest.tokens)
    _ = try await harness.enrolKey(television.key, other.tokens)
    await expectRefusal(.alreadyExists, "IDENTITY_IN_USE") { try await bind(to: account) }
    #expect(try await harness.isActive(try other.tokens.orThrow().accessToken))
    // Nor did the refusal begin a session.
    #expect(try await listed(account.tokens) == nil)
  }

  @Test("S19: revoking the code ends the binding and every session that its key has begun since")
  func revokedWithItsCode() async throws {
    _ = try await bind(to: account)
    let later = try await comeBack()
    let revocation = IdentityV1.RevokeForQrRequest(qrSessionID: "qr-1", reason: "reused")
    #expect(try await harness.grants.revokeForQr(revocation, options: .service).sessionsEnded == 1)
    #expect(try await !harness.isActive(later.accessToken))
    #expect(try await listed(account.tokens) == nil)
    await expectRefusal(.unauthenticated, "INVALID_CREDENTIALS") { try await comeBack() }
  }

  @Test("S5: a repeated grant binds once, and leaves one session")
  func repeated() async throws {
    let first = try await bind(to: account)
    let again = try await bind(to: account)
    #expect(try await !harness.isActive(try first.tokens.orThrow().accessToken))
    #expect(try await harness.isActive(try again.tokens.orThrow().accessToken))
    #expect(try await listed(account.tokens)?.sessions == 1)
  }

  @Test("Q12: a restart, and nothing is forgotten of a bound device")
  func survivesRestart() async throws {
    _ = try await bind(to: account)
    let again = try await harness.restarted()
    let proof = try await again.proof(by: television.key, for: "latchkey-unlock-v1")
    let back = try await again.authenticate(.deviceKey(IdentityV1.DeviceKeyCredential(proof: proof)))
    #expect(back.subject?.sub == account.subject?.sub)
  }

  @Test("Q12: an account that is disabled opens to no bound device")
  func disabledAccount() async throws {
    _ = try await bind(to: account)
    let disable = IdentityV1.DisableSubjectRequest(sub: account.subject?.sub ?? "", reason: "stolen")
    _ = try await harness.admin.disableSubject(disable, options: .service)
    await expectRefusal(.permissionDenied, "SUBJECT_DISABLED") { try await comeBack() }
  }
}
