import GRPC
import LatchkeyModel
import LatchkeyProtos
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
}
