import GRPC
import LatchkeyModel
import LatchkeyProtos
import ServiceRuntime
import Storage
import Testing

@testable import IdentityService

@Suite("Revocations told to the other services")
struct WatchRevocationsTests {
  private func subject(_ tokens: CommonV1.TokenSet?, _ harness: IdentityHarness) -> AuthenticatedSubject {
    AuthenticatedSubject(
      subject: "", sessionID: tokens?.sid ?? "", isGuest: false, scope: "", clientID: "", authenticatedAt: nil,
      keyThumbprint: nil, tokenID: "", expiresAt: harness.clock.now())
  }

  @Test("R14: a service that begins to watch hears what ended before, and then each end")
  func watch() async throws {
    let harness = try await IdentityHarness()
    let first = try await harness.register("ada@example.com").tokens
    let second = try await harness.signIn("ada@example.com").tokens
    _ = try await harness.logOut(first)
    var told: [IdentityV1.WatchRevocationsResponse] = []
    await expectRefusal(.unavailable) {
      try await harness.grants.watchRevocations(
        IdentityV1.WatchRevocationsRequest(), options: .service
      ) { (responses) throws(RPCError) in
        for try await response in responses {
          told.append(response)
          switch told.count {
          case 1: _ = try await harness.auth.revoke(IdentityV1.RevokeRequest(token: second?.refreshToken ?? ""))
          case 2: harness.core.endedSessions.watches.beat()
          case 3: harness.core.endedSessions.watches.drain()
          default: break
          }
        }
      }
    }
    #expect(told.map(\.endedSids) == [[first?.sid ?? "?"], [second?.sid ?? "?"], []])
    #expect(told.allSatisfy { $0.caughtUp && $0.retentionSeconds == 960 })
    #expect(harness.core.endedSessions.watches.watch() == nil)
    #expect(harness.core.endedSessions.watches.count == 0)
  }

  @Test("R14: a long list comes in parts, of which the last says that it is whole")
  func longList() async throws {
    let harness = try await IdentityHarness()
    let now = harness.clock.now()
    let random = harness.core.random
    let ids = (0..<1300).map { _ in
      EndedSession(id: SessionID(from: random), subject: SubjectID(from: random), why: .loggedOut, at: now)
    }
    harness.core.endedSessions.remember(ids)
    var told: [IdentityV1.WatchRevocationsResponse] = []
    try await harness.grants.watchRevocations(
      IdentityV1.WatchRevocationsRequest(), options: .service
    ) { (responses) throws(RPCError) in
      for try await response in responses {
        told.append(response)
        if response.caughtUp { return }
      }
    }
    #expect(told.map(\.caughtUp) == [false, false, true])
    #expect(Set(told.flatMap(\.endedSids)) == Set(ids.map(\.id.description)))
  }

  @Test("a service that is too far behind is ended, so that it begins anew")
  func tooFarBehind() async throws {
    let watches = RevocationWatches()
    let slow = try watches.watch().orThrow()
    for _ in 0...Limits.batchesPerRevocationWatch { watches.beat() }
    #expect(watches.count == 0)
    var batches = 0
    for await _ in slow.batches { batches += 1 }
    #expect(batches == Limits.batchesPerRevocationWatch)
  }

  @Test("R14: the other services know of an end as soon as it is acknowledged")
  func feed() async throws {
    let harness = try await IdentityHarness()
    let early = try await harness.register("ada@example.com").tokens
    let late = try await harness.signIn("ada@example.com").tokens
    let other = try await harness.signIn("ada@example.com").tokens
    _ = try await harness.logOut(early)
    let channel = ServiceChannel(harness.channel, token: try IdentityHarness.serviceToken.orThrow())
    let feed = RevocationFeed(identity: channel, logger: IdentityHarness.logger)
    #expect(!feed.isCurrent)
    let task = Task { await feed.run() }
    try await eventually { feed.isCurrent }
    #expect(feed.hasEnded(subject(early, harness)) && !feed.hasEnded(subject(late, harness)))
    _ = try await harness.logOut(late)
    try await eventually { feed.hasEnded(subject(late, harness)) }
    #expect(!feed.hasEnded(subject(other, harness)))
    task.cancel()
    await task.value
    try await eventually { harness.core.endedSessions.watches.count == 0 }
  }
}
