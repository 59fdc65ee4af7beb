import Callers
import GRPC
import ServiceRuntime
import Synchronization
import Testing

@testable import QRSessionService

@Suite("S5: the turn in which one of several instances hands a grant over")
struct RedemptionTurnTests {
  @Test("S5: identity has no longer for a grant than the turn lasts, however long the poll may take")
  func turnBoundsGrant() async throws {
    let first = try await Harness.instance(1, over: CountingStore())
    let issued = try await first.confirmed()
    _ = try await first.poll(
      issued, verifier: Harness.verifier, context: .screen(deadline: .now + .seconds(600)))
    let end = try #require(first.grants.state.withLock { $0.deadlines }.first ?? nil)
    #expect(end <= .now + Limits.grantTimeout)
  }

  @Test("S5: a turn that took the database too long to give is given up unused")
  func lateTurn() async throws {
    let store = CountingStore()
    let first = try await Harness.instance(1, over: store)
    let issued = try await first.confirmed()
    store.slowTurns.withLock { $0 = 1 }
    // On a busy machine that may be late as well, which is told to be tried again.
    if let error = await refusal({ _ = try await first.poll(issued, verifier: Harness.verifier) }) {
      #expect(error.code == .unavailable)
    }
    #expect(store.turns.withLock { $0.map(\.length) }.prefix(2) == [Limits.redemptionTurn, .zero])
  }

  @Test("S5: a turn is given up also after the poll's time, but not while identity may be at it")
  func givenUpLate() async throws {
    let store = CountingStore()
    let first = try await Harness.instance(1, over: store)
    let issued = try await first.confirmed()
    func refused(_ error: RPCError) async -> [CountingStore.Turn] {
      first.grants.fail(error)
      store.turns.withLock { $0 = [] }
      await CallDeadline.$current.withValue(.now) {
        #expect(await refusal { _ = try await first.poll(issued, verifier: Harness.verifier) }?.code == error.code)
      }
      return store.turns.withLock { $0 }
    }
    let away = await refused(RPCError(.unavailable, "identity is away"))
    #expect(away.last?.length == .zero)
    #expect(away.last?.hasDeadline == false)
    first.clock.move(by: .seconds(6))
    let late = await refused(RPCError(.deadlineExceeded, "identity takes its time"))
    #expect(late.last?.length == Limits.redemptionTurn)
  }
}
