import GRPC
import LatchkeyModel
import Synchronization
import TestSupport
import Testing

@testable import LatchkeyClient

@Suite("A device whose key another holds as well")
struct CloneTests {
  private let harness: Harness
  private let phone = DeviceDescription(label: "test")

  init() async throws { harness = try await Harness() }

  private func device(_ store: FileSecretStore) -> DeviceClient {
    DeviceClient(
      configuration: ClientConfiguration(clientID: "test-app", qrBase: "https://login.example"), secrets: store,
      identity: harness.channel, qr: harness.channel, migrator: harness.channel, clock: harness.clock)
  }

  /// What a backup of a device's store becomes on another one.
  private func copy(of store: FileSecretStore, _ name: String) throws -> FileSecretStore {
    let copy = FileSecretStore(directory: "\(harness.folder.path)/\(name)")
    for secret in ["device", "session", ProofCount.name] {
      if let bytes = try store.secret(named: secret) { try copy.save(bytes, as: secret) }
    }
    return copy
  }

  /// A guest, and the stores of two devices that both hold its key, of which the service knows.
  private func cloned() async throws -> (
    guest: LatchkeyClient.Session, original: FileSecretStore, copy: FileSecretStore
  ) {
    let original = FileSecretStore(directory: "\(harness.folder.path)/original")
    let guest = try await device(original).startAsGuest(phone).session
    let copy = try copy(of: original, "copy")
    #expect(try await device(original).startAsGuest(phone).session.subject == guest.subject)
    await expectCloned(copy)
    await expectCloned(original)
    return (guest, original, copy)
  }

  private func expectCloned(_ store: FileSecretStore, sourceLocation: SourceLocation = #_sourceLocation) async {
    await expect("DEVICE_CLONED", sourceLocation) { _ = try await device(store).startAsGuest(phone) }
  }

  private func expect(
    _ reason: String, _ sourceLocation: SourceLocation = #_sourceLocation, _ body: () async throws -> Void
  ) async {
    do {
      try await body()
      Issue.record("nothing was refused", sourceLocation: sourceLocation)
    } catch {
      guard case ClientError.call(let failure) = error else {
        Issue.record(error, sourceLocation: sourceLocation)
        return
      }
      #expect(failure.reason == reason, sourceLocation: sourceLocation)
    }
  }

  @Test("D3: each proof has a number of its own, kept before it is sent, also when its request is lost")
  func counts() async throws {
    _ = try await harness.startGuest()
    harness.channel.inject(.requestLost, into: Harness.issueGuest)
    await #expect(throws: ClientError.self) { try await harness.startGuest() }
    #expect(try harness.store.secret(named: ProofCount.name) == Array("2".utf8))
    #expect(try await !harness.startGuest().created)
    #expect(try harness.store.secret(named: ProofCount.name) == Array("3".utf8))
  }

  @Test("D3: numbers are taken once, however many take them at the same time; a damaged count gives none")
  func numbers() async throws {
    let store = harness.store.files
    let numbers = try await withThrowingTaskGroup(of: Int64.self) { group in
      for _ in 0..<50 { group.addTask { try ProofCount.next(in: store) } }
      return try await group.reduce(into: Set<Int64>()) { $0.insert($1) }
    }
    #expect(numbers == Set(1...50))
    for damaged in ["", "-1", "9223372036854775807", "1 "] {
      try store.save(Array(damaged.utf8), as: ProofCount.name)
      #expect(throws: ClientError.self) { try ProofCount.next(in: store) }
      #expect(try store.secret(named: ProofCount.name) == Array(damaged.utf8))
    }
  }

  @Test("D3: a copy of a device is noticed; the device that wants the guest keeps it, and the copy begins anew")
  func transfer() async throws {
    let (guest, original, copy) = try await cloned()
    let kept = try await device(original).resolveClone(.transfer, phone)
    #expect(kept.session.subject == guest.subject && !kept.created)
    #expect(try await device(original).devices().count == 1)
    #expect(try await device(original).startAsGuest(phone).session.subject == guest.subject)
    let other = try await device(copy).startAsGuest(phone)
    #expect(other.created && other.session.subject != guest.subject)
    await expect("DEVICE_NOT_CLONED") { _ = try await device(copy).resolveClone(.transfer, phone) }
    #expect(try copy.secret(named: CloneResolution.name) == nil)
  }

  @Test("D3: a device that goes its own way leaves the guest to the other, though that is behind in counting")
  func split() async throws {
    let (guest, original, copy) = try await cloned()
    let new = try await device(original).resolveClone(.split, phone)
    #expect(new.session.subject != guest.subject && new.created)
    #expect(try await device(copy).startAsGuest(phone).session.subject == guest.subject)
    #expect(try await device(original).startAsGuest(phone).session.subject == new.session.subject)
    #expect(try await device(copy).startAsGuest(phone).session.subject == guest.subject)
  }

  @Test(
    "D3: a choice whose answer or request was lost is taken to its end by the next start",
    arguments: [LoopbackChannel.Fault.answerLost, .requestLost])
  func lost(fault: LoopbackChannel.Fault) async throws {
    let (guest, original, copy) = try await cloned()
    harness.channel.inject(fault, into: Harness.resolveClone)
    let choosing = device(original)
    await #expect(throws: ClientError.self) { try await choosing.resolveClone(.transfer, phone) }
    #expect(try original.secret(named: CloneResolution.name) != nil)
    let start = try await device(original).startAsGuest(phone)
    #expect(start.session.subject == guest.subject && !start.created)
    #expect(try original.secret(named: CloneResolution.name) == nil)
    #expect(try await device(copy).startAsGuest(phone).created)
  }

  @Test("D3: a choice that another device was faster with is dropped, and the old key goes on")
  func overtaken() async throws {
    let (guest, original, copy) = try await cloned()
    harness.channel.inject(.requestLost, into: Harness.resolveClone)
    let choosing = device(original)
    await #expect(throws: ClientError.self) { try await choosing.resolveClone(.split, phone) }
    #expect(try await device(copy).resolveClone(.split, phone).session.subject != guest.subject)
    #expect(try await device(original).startAsGuest(phone).session.subject == guest.subject)
  }

  @Test("D3: a key that was to replace the cloned one replaces no other")
  func halfRotated() async throws {
    let (guest, original, _) = try await cloned()
    await expect("DEVICE_CLONED") { _ = try await device(original).rotateDeviceKey(phone) }
    #expect(try original.secret(named: DeviceRecord.nextName) != nil)
    #expect(try await device(original).resolveClone(.transfer, phone).session.subject == guest.subject)
    #expect(try original.secret(named: DeviceRecord.nextName) == nil)
    _ = try await device(original).rotateDeviceKey(phone)
    #expect(try await device(original).startAsGuest(phone).session.subject == guest.subject)
  }
}
