import GRPC
import LatchkeyProtos
import Synchronization
import Testing

@testable import LatchkeyClient

@Suite("What an app follows by a stream")
struct WatchTests {
  private let harness: Harness
  /// The pauses that were made.
  private final class Pauses: Sendable {
    let taken = Mutex<[Duration]>([])
  }
  private let pauses = Pauses()

  init() async throws { harness = try await Harness() }

  private func device(_ streams: ScriptedStreams) -> DeviceClient {
    DeviceClient(
      configuration: ClientConfiguration(clientID: "test-app", bindsTokens: false, qrBase: "https://login.example"),
      secrets: harness.store, identity: streams, qr: streams, migrator: streams, clock: harness.clock,
      sleeping: { [pauses] pause in pauses.taken.withLock { $0.append(pause) } }
    )
  }

  private func merge(_ state: MigrationV1.MigrationState, done: Int64 = 0) throws -> ScriptedStreams.Script {
    try ScriptedStreams.Script([
      MigrationV1.WatchMigrationResponse(
        migration: MigrationV1.Migration(migrationID: "m", state: state, done: done, total: 100))
    ])
  }

  @Test("R39: a watch that the service ends again and again is taken up until the merge has ended")
  func mergeToItsEnd() async throws {
    _ = try await harness.startGuest()
    let running = try (1...20).map { try merge(.running, done: $0) }
    let streams = ScriptedStreams(running + [try merge(.done, done: 100)], others: harness.channel)
    #expect(try await device(streams).watchMerge(id: "m").state == .done)
    #expect(streams.calls == 21)
    #expect(pauses.taken.withLock { $0.count } == 20)
  }

  @Test("R39: a merge of which nothing more is heard is an error, never an end")
  func mergeWithoutEnd() async throws {
    _ = try await harness.startGuest()
    let streams = ScriptedStreams([try merge(.running)], others: harness.channel)
    await #expect {
      try await device(streams).watchMerge(id: "m")
    } throws: { error in
      guard case ClientError.call(let failure) = error else { return false }
      return failure.code == "UNAVAILABLE" && failure.message.contains("the merge has not ended")
    }
    #expect(pauses.taken.withLock { $0.count } == Limits.attempts)
  }

  @Test("Q7: a code whose watch ends at once is not asked about without a pause, nor for ever")
  func codeWithoutEnd() async throws {
    let streams = ScriptedStreams(
      [try ScriptedStreams.Script([QRV1.WatchSessionResponse(state: .pending, version: 1)])], others: harness.channel)
    let ticket = QRTicket(deviceCode: "code", codeVerifier: "verifier", needsDeviceProof: false)
    let seen = Mutex(0)
    await #expect {
      try await device(streams).watchQRCode(ticket) { _ in seen.withLock { $0 += 1 } }
    } throws: { error in
      guard case ClientError.call(let failure) = error else { return false }
      return failure.code == "UNAVAILABLE" && failure.message.contains("not decided")
    }
    #expect(seen.withLock { $0 } == 1)
    #expect(streams.calls == Limits.attempts + 1)
    #expect(pauses.taken.withLock { $0.allSatisfy { $0 >= Limits.firstPause / 2 } })
  }

  private func export(_ parts: [IdentityV1.ExportGuestResponse.Part], end: RPCError? = nil) throws
    -> ScriptedStreams.Script
  {
    try ScriptedStreams.Script(parts.map { IdentityV1.ExportGuestResponse(part: $0) }, end: end)
  }

  @Test("an export that breaks off after its first line hands no line over twice")
  func exportOnce() async throws {
    _ = try await harness.startGuest()
    let identity = IdentityV1.ExportGuestResponse.Part.identity(IdentityV1.LinkedIdentity(kind: "email", mask: "a"))
    let complete = IdentityV1.ExportGuestResponse.Part.complete(IdentityV1.ExportSummary(records: 0))
    let streams = ScriptedStreams(
      [try export([identity], end: Harness.expired), try export([identity, complete])], others: harness.channel)
    let lines = Mutex<[String]>([])
    let device = device(streams)
    await #expect(throws: ClientError.self) {
      try await device.exportData { line in lines.withLock { $0.append(line) } }
    }
    #expect(lines.withLock { $0.count } == 1 && streams.calls == 1)
  }

  @Test("an export whose token has expired before its first line is made again")
  func exportAgain() async throws {
    _ = try await harness.startGuest()
    let complete = IdentityV1.ExportGuestResponse.Part.complete(IdentityV1.ExportSummary(records: 0))
    let streams = ScriptedStreams(
      [try export([], end: Harness.expired), try export([complete])], others: harness.channel)
    let lines = Mutex<[String]>([])
    try await device(streams).exportData { line in lines.withLock { $0.append(line) } }
    #expect(lines.withLock { $0.count } == 1 && streams.calls == 2)
  }
}
