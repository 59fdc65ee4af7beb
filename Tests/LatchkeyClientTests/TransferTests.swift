import LatchkeyClient
import LatchkeyModel
import Testing

@Suite("Moving to a new phone, as an app does")
struct TransferFlowTests {
  @Test("D8: a guest moves from one device's store to another's")
  func moves() async throws {
    let harness = try await Harness()
    let old = try await harness.startGuest()
    let offer = try await harness.device().offerTransfer()
    let phone = DeviceClient(
      configuration: ClientConfiguration(clientID: "test-app", qrBase: "https://login.example"),
      secrets: FileSecretStore(directory: "\(harness.folder.path)/phone"), identity: harness.channel,
      qr: harness.channel, migrator: harness.channel, clock: harness.clock)
    let preview = try await phone.inspectTransfer(TransferSecret(offer.code))
    #expect(preview.isGuest && preview.oldDevice == .either)
    let moved = try await phone.redeemTransfer(
      TransferSecret(offer.payload), keepOld: false, DeviceDescription(label: "new"))
    #expect(moved.session.subject == old.session.subject)
    #expect(try await phone.authState() == .guest(moved.session))
    await #expect(throws: ClientError.self) { try await harness.device().refreshSession() }
    #expect(try await phone.startAsGuest(DeviceDescription(label: "new")).session.subject == old.session.subject)
  }

  @Test("D3: a device key is replaced, and a rotation that was broken off at any point is taken to its end")
  func rotates() async throws {
    let harness = try await Harness()
    let guest = try await harness.startGuest()
    let device = harness.device()
    let first = try await device.rotateDeviceKey(DeviceDescription(label: "test"))
    #expect(try await device.devices().map(\.keyThumbprint) == [first])
    // The app dies with the new key kept and the service's answer unread.
    let before = try harness.store.secret(named: "device")
    _ = try await device.rotateDeviceKey(DeviceDescription(label: "test"))
    let after = try #require(try harness.store.secret(named: "device"))
    try harness.store.save(try #require(before), as: "device")
    try harness.store.save(after, as: "device-next")
    let again = try await harness.device().startAsGuest(DeviceDescription(label: "test"))
    #expect(again.session.subject == guest.session.subject && !again.created)
    #expect(try harness.store.secret(named: "device-next") == nil)
  }
}
