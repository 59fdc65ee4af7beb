import Domain
import LatchkeyModel
import Storage
import Testing

@Suite("A person's devices, by the rules")
struct DeviceTests {
  @Test("A device is listed with what bound it, named by its owner alone, and no one else's")
  func listAndRename() async throws {
    let world = World()
    let ada = try await world.account("ada", on: "phone")
    let binding = DeviceBinding(
      boundAt: world.now, qrSession: "code", confirmedBy: Session.Device(keyThumbprint: "phone"), scope: .account)
    let bound = Unlock(
      kind: .key, keyThumbprint: "screen", account: ada.subject, deviceKey: "screen", secretHash: nil,
      enrolledAt: world.now, binding: binding)
    try await world.write { rows throws(StorageError) in try await rows.unlocks.put(bound, triesLeft: 10) }
    func devices() async throws -> [KnownDevice] {
      try await world.domain.look(ListDevices(of: ada.subject, at: world.now))
    }
    #expect(try await devices().map(\.keyThumbprint) == ["phone", "screen"])
    #expect(try await devices().map(\.binding) == [nil, binding])
    let label = try DisplayText("Ada's").orThrow()
    func rename(_ key: String, of subject: SubjectID) async throws -> Bool {
      try await world.domain.perform(RenameDevice(key, of: subject, to: label, at: world.now))
    }
    #expect(try await rename("phone", of: ada.subject))
    #expect(try await rename("screen", of: ada.subject))
    #expect(try await !rename("laptop", of: ada.subject))
    let bob = try await world.account("bob", on: "laptop")
    #expect(try await !rename("phone", of: bob.subject))
    #expect(try await devices().map(\.label) == ["Ada's", nil])
    #expect(try await world.session(ada.id)?.device.label == label)
    _ = try await world.domain.perform(EndSession(ada.id, because: .loggedOut, at: world.now))
    #expect(try await !rename("phone", of: ada.subject))
    #expect(try await devices().map(\.keyThumbprint) == ["screen"])
  }
}
