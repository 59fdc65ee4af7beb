import GRPC
import LatchkeyModel
import LatchkeyProtos
import ServiceRuntime
import Testing

@testable import IdentityService

/// A thief's many watches, and the owner's one.
@Suite struct WatchShareTests {
  @Test("R37, R50: a session that holds all the watches it gets keeps no other session of the account from being told")
  func ownerIsTold() async throws {
    let harness = try await IdentityHarness()
    let owner = try await harness.register("ada@example.com").tokens.orThrow()
    let stolen = try await harness.signIn("ada@example.com").tokens.orThrow()
    try await withThrowingTaskGroup(of: Void.self) { group in
      for _ in 0..<Limits.watchesPerSubject {
        group.addTask {
          try? await harness.sessions.watchSessionEvents(
            IdentityV1.WatchSessionEventsRequest(), options: .bearer(stolen)
          ) { (events) throws(RPCError) in
            for try await _ in events {}
          }
        }
      }
      try await eventually { harness.core.sessionEvents.count > 3 }
      let first = try await harness.sessions.watchSessionEvents(
        IdentityV1.WatchSessionEventsRequest(), options: .bearer(owner)
      ) { (events) throws(RPCError) -> IdentityV1.WatchSessionEventsResponse? in
        var iterator = events.makeAsyncIterator()
        return try await iterator.next()
      }
      #expect(first?.event == .watching)
      group.cancelAll()
    }
  }

  private static let subject = SubjectID(from: RandomSource { [UInt8](repeating: 1, count: $0) })

  private static func session(_ number: UInt8) -> SessionID {
    SessionID(from: RandomSource { [UInt8](repeating: number, count: $0) })
  }

  private func holder(_ session: UInt8, device: String? = nil) -> WatchHolder {
    WatchHolder(subject: Self.subject, session: Self.session(session), device: device)
  }

  @Test("R37: a session has four watches and a device eight, and leaving one makes room")
  func bounds() throws {
    let hub = SessionEventHub()
    var watches: [SessionEventHub.Watch] = []
    for number in 0..<8 { watches.append(try hub.watch(holder(UInt8(number / 4), device: "phone")).orThrow()) }
    #expect(hub.watch(holder(0, device: "phone")) == nil)
    #expect(hub.watch(holder(9, device: "phone")) == nil)
    hub.leave(watches[0])
    hub.leave(watches[0])
    #expect(hub.count == 7)
    #expect(hub.watch(holder(0, device: "phone")) != nil)
  }

  @Test(
    "R37, R50: when a subject's watches are all taken, the device with the most makes room, its longest watch first")
  func largestLosesFirst() async throws {
    let hub = SessionEventHub()
    var stolen: [SessionEventHub.Watch] = []
    for session in 0..<4 as Range<UInt8> {
      for _ in 0..<4 { stolen.append(try hub.watch(holder(session, device: "thief \(session / 2)")).orThrow()) }
    }
    #expect(hub.count == Limits.watchesPerSubject)
    for number in 0..<4 as Range<UInt8> { #expect(hub.watch(holder(20 + number)) != nil) }
    #expect(hub.count == Limits.watchesPerSubject)
    // The first watch of the one or the other thief's device has ended; the last of each goes on.
    for await _ in stolen[stolen.startIndex].events {}
    for await _ in stolen[8].events {}
    hub.leave(stolen[7])
    hub.leave(stolen[15])
    #expect(hub.count == Limits.watchesPerSubject - 2)
  }

  @Test("R37, R50: guides are watched by the owner too, however many watches other sessions hold")
  func ownerIsGuided() throws {
    let watches = GuideWatches()
    let guide = try GuideID("welcome").orThrow()
    for number in 0..<16 as Range<UInt8> { _ = watches.watch(guide, by: holder(number / 4)) }
    #expect(watches.count == Limits.watchesPerSubject)
    #expect(watches.watch(guide, by: holder(99)) != nil)
    #expect(watches.count == Limits.watchesPerSubject)
  }
}
