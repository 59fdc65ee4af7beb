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

  @Test("C5: a turn that nobody knows to have been given is taken again by whoever has it, and once")
  func unansweredTurn() async throws {
    let store = CountingStore()
    let first = try await Harness.instance(1, over: store)
    let issued = try await first.confirmed()
    store.unansweredTurns.withLock { $0 = 2 }
    #expect(try await first.poll(issued, verifier: Harness.verifier).tokens != nil)
    #expect(store.turns.withLock { $0.map(\.length) } == [Duration](repeating: Limits.redemptionTurn, count: 3))
    #expect(first.grants.state.withLock { $0.turns }.count == 1)
  }

  @Test(
    "C5: a turn that nobody knows to have been given is given up with its poll, and somebody else's is not",
    arguments: [true, false])
  func unansweredTurnOfCancelledPoll(_ isOthers: Bool) async throws {
    let store = CountingStore()
    let first = try await Harness.instance(1, over: store)
    let issued = try await first.confirmed()
    store.unansweredTurns.withLock { $0 = isOthers ? 0 : 1000 }
    if isOthers { _ = try await store.takeRedemption(of: first.stored(issued).id, by: [7], for: Limits.redemptionTurn) }
    store.turns.withLock { $0 = [] }
    let poll = Task { try await first.poll(issued, verifier: Harness.verifier) }
    while store.turns.withLock({ $0.isEmpty }) { try await Task.sleep(for: .milliseconds(1)) }
    poll.cancel()
    #expect(await refusal { _ = try await poll.value }?.code == .cancelled)
    // The poll does not wait for that.
    while !isOthers, store.turns.withLock({ $0.last?.length != .zero }) { try await Task.sleep(for: .milliseconds(1)) }
    let lengths = store.turns.withLock { $0.map(\.length) }
    #expect(lengths.count > 0 && lengths.dropLast(isOthers ? 0 : 1).allSatisfy { $0 == Limits.redemptionTurn })
  }

  @Test("S5: a turn is given up also after the poll's time, whether or not identity may still be at it")
  func givenUpLate() async throws {
    let store = CountingStore()
    let first = try await Harness.instance(1, over: store)
    let issued = try await first.confirmed()
    first.grants.fail(RPCError(.unavailable, "identity is away"))
    store.turns.withLock { $0 = [] }
    await CallDeadline.$current.withValue(.now) {
      #expect(await refusal { _ = try await first.poll(issued, verifier: Harness.verifier) }?.code == .unavailable)
    }
    let turns = store.turns.withLock { $0 }
    #expect(turns.map(\.length) == [Limits.redemptionTurn, .zero])
    #expect(turns.last?.hasDeadline == false)
  }

  @Test("S5: where identity takes its time the turn is given up, and the poll takes the next one")
  func takenAgain() async throws {
    let store = CountingStore()
    let first = try await Harness.instance(1, over: store)
    let issued = try await first.confirmed()
    first.grants.fail(RPCError(.deadlineExceeded, "identity takes its time"))
    store.turns.withLock { $0 = [] }
    #expect(try await first.poll(issued, verifier: Harness.verifier).tokens != nil)
    #expect(store.turns.withLock { $0.map(\.length) } == [Limits.redemptionTurn, .zero, Limits.redemptionTurn])
    #expect(first.grants.state.withLock { $0.turns }.count == 2)
  }

  @Test("S5: each time that identity is asked is a turn of its own, later than those before", arguments: [true, false])
  func numbers(_ isShared: Bool) async throws {
    let harness = isShared ? try await Harness.instance(1, over: CountingStore()) : try Harness()
    let issued = try await harness.confirmed()
    // Nobody knows whether identity is still at it.
    for error in [RPCError(.unavailable, "lost"), RPCError(.cancelled, "the poll was cancelled")] {
      harness.grants.fail(error)
      #expect(await refusal { _ = try await harness.poll(issued, verifier: Harness.verifier) }?.code == error.code)
      harness.clock.move(by: .seconds(6))
    }
    // Overtaken on the way, it is tried in a turn of its own.
    harness.grants.fail(RPCError(.aborted, "turn: over", reason: "QR_TURN_OVER"))
    if !isShared {
      let error = await refusal { _ = try await harness.poll(issued, verifier: Harness.verifier) }
      #expect(error?.code == .unavailable && error?.details.retryAfter != nil)
      harness.clock.move(by: .seconds(6))
    }
    #expect(try await harness.poll(issued, verifier: Harness.verifier).tokens != nil)
    let turns = harness.grants.state.withLock { $0.turns }
    #expect(turns.count == 4 && turns == Set(turns).sorted())
  }
}
