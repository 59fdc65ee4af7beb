import Glibc
import Synchronization
import TestSupport
import Testing

@testable import Cryptography

@Suite("Threads for blocking work")
struct WorkerThreadsTests {
  /// One thread, which waits at the gate.
  private func busyThreads(_ gate: ThreadGate) async -> WorkerThreads {
    let threads = WorkerThreads(threads: 1, capacity: 8)
    _ = threads.submit { gate.wait() }
    while threads.waiting > 0 { await Task.yield() }
    return threads
  }

  @Test("Who is cancelled leaves the queue at once, and the work is not done")
  func withdrawal() async throws {
    let gate = ThreadGate()
    let threads = await busyThreads(gate)
    let isDone = Atomic(false)
    let caller = Task {
      try await threads.run { isDone.store(true, ordering: .relaxed) }
    }
    while threads.waiting == 0 { await Task.yield() }
    caller.cancel()
    await #expect(throws: WorkerThreads.Refusal.withdrawn) { try await caller.value }
    #expect(threads.waiting == 0)
    gate.open()
    // The thread has been through the queue.
    try await threads.run {}
    let wasDone = isDone.load(ordering: .relaxed)
    #expect(!wasDone)
    threads.stop()
  }

  @Test("Who was cancelled before does not wait either")
  func cancelledBefore() async {
    let gate = ThreadGate()
    let threads = await busyThreads(gate)
    let caller = Task {
      while !Task.isCancelled { await Task.yield() }
      try await threads.run {}
    }
    caller.cancel()
    await #expect(throws: WorkerThreads.Refusal.withdrawn) { try await caller.value }
    gate.open()
    threads.stop()
  }

  @TaskLocal private static var source: WorkerThreads.Holder?

  private final class Order: Sendable {
    let names = Mutex<[String]>([])
  }

  @Test("R50: a source that fills the line of the few keeps no third one out of it")
  func thirdSource() async throws {
    let gate = ThreadGate()
    let threads = WorkerThreads(threads: 1, capacity: 200, holder: { Self.source })
    _ = threads.submit { gate.wait() }
    while threads.waiting > 0 { await Task.yield() }
    func fill(_ source: WorkerThreads.Holder) -> [WorkerThreads.Place] {
      var places: [WorkerThreads.Place] = []
      while let place = try? Self.$source.withValue(source, operation: { try threads.reserve() }) {
        places.append(place)
      }
      return places
    }
    let taken = (1...4).map { fill([0, $0]) }
    #expect(taken.map(\.count) == [200, 8, 4, 2])
    #expect(threads.taken == 214)
    withExtendedLifetime(taken) {}
    gate.open()
    threads.stop()
  }

  @Test("R50: whatever one source has waiting, another's few are done by turns with it, and in time")
  func shares() async throws {
    let (gate, clock) = (ThreadGate(), StandingClock())
    let threads = WorkerThreads(
      threads: 1, capacity: 8, now: { clock.now }, holder: { Self.source })
    // A piece of work takes a second.
    try await threads.run { clock.advance(.seconds(1)) }
    _ = threads.submit { gate.wait() }
    while threads.waiting > 0 { await Task.yield() }
    let (large, small): (WorkerThreads.Holder, WorkerThreads.Holder) = ([0, 1], [0, 2])
    func reserve(_ source: WorkerThreads.Holder, _ deadline: Duration? = nil) throws -> WorkerThreads.Place {
      try Self.$source.withValue(source) {
        try threads.reserve(until: deadline.map { clock.now + $0 })
      }
    }
    let many = try (0..<8).map { _ in try reserve(large) }
    #expect(throws: WorkerThreads.Refusal.full) { try reserve(large) }
    #expect(throws: WorkerThreads.Refusal.late) { try reserve(large, .seconds(10)) }
    // One before it, twice the time of that, and what it takes itself.
    #expect(throws: WorkerThreads.Refusal.late) { try reserve(small, .seconds(3)) }
    do {
      let unused = try reserve(small, .seconds(4))
      #expect(threads.taken == 9)
      withExtendedLifetime(unused) {}
    }
    #expect(threads.taken == 8)
    let few = try (0..<2).map { _ in try reserve(small) }
    #expect(throws: WorkerThreads.Refusal.full, "a third is more than a quarter") { try reserve(small) }
    let order = Order()
    try await withThrowingTaskGroup(of: Void.self) { group in
      for (places, name) in [(many, "large"), (few, "small")] {
        for place in places {
          group.addTask { try await threads.run(in: place) { order.names.withLock { $0.append(name) } } }
        }
      }
      while threads.waiting < 10 { await Task.yield() }
      gate.open()
      try await group.waitForAll()
    }
    #expect(order.names.withLock { $0 } == ["small", "large", "small"] + Array(repeating: "large", count: 7))
    #expect(threads.taken == 0)
    // Nobody has anything any more.
    for _ in 0..<2 { try await threads.run(in: try reserve(small)) {} }
    threads.stop()
  }

  /// A clock that stands still until it is moved.
  private final class StandingClock: Sendable {
    private let moment = Mutex(ContinuousClock.Instant.now)

    var now: ContinuousClock.Instant { moment.withLock { $0 } }

    func advance(_ time: Duration) { moment.withLock { $0 += time } }
  }

  /// One thread that has learnt that a piece of work takes 20 ms, and then waits at the gate.
  private func timedThreads(
    _ clock: StandingClock, _ gate: ThreadGate, longestWait: Duration? = nil
  ) async throws -> WorkerThreads {
    let threads = WorkerThreads(threads: 1, capacity: 8, longestWait: longestWait, now: { clock.now })
    try await threads.run { clock.advance(.milliseconds(20)) }
    _ = threads.submit { gate.wait() }
    while threads.waiting > 0 { await Task.yield() }
    return threads
  }

  @Test("No more may wait than gets done in the longest wait, judged by what the last pieces took")
  func longestWait() async throws {
    let gate = ThreadGate()
    let threads = try await timedThreads(StandingClock(), gate, longestWait: .milliseconds(30))
    #expect(threads.submit {} == .accepted)
    // Two that wait are 40 ms of work.
    #expect(threads.submit {} == .accepted)
    #expect(threads.submit {} == .full)
    #expect(throws: WorkerThreads.Refusal.full) { try threads.reserve() }
    #expect(throws: WorkerThreads.Refusal.full) { try threads.check() }
    gate.open()
    threads.stop()
  }

  @Test("Who would wait for half of its time is refused at once, and whoever would wait for less is taken")
  func deadlineThatCannotBeMet() async throws {
    let (clock, gate) = (StandingClock(), ThreadGate())
    let threads = try await timedThreads(clock, gate)
    // One runs for 20 ms, for which one with 40 may wait; the work itself takes 20, and what comes after it 5.
    #expect(throws: WorkerThreads.Refusal.late) { try threads.reserve(until: clock.now + .milliseconds(64)) }
    let place = try threads.reserve(until: clock.now + .milliseconds(65))
    // The place counts as well, before its work is there.
    #expect(throws: WorkerThreads.Refusal.late) { try threads.reserve(until: clock.now + .milliseconds(104)) }
    #expect(throws: Never.self) { try threads.check(until: clock.now + .milliseconds(105)) }
    #expect(threads.waiting == 0)
    gate.open()
    try await threads.run(in: place) {}
    threads.stop()
  }

  @Test("A place that nobody used is free again")
  func placeGivenBack() async throws {
    let threads = WorkerThreads(threads: 1, capacity: 1)
    do {
      let place = try threads.reserve()
      #expect(threads.submit {} == .full)
      withExtendedLifetime(place) {}
    }
    let place = try threads.reserve()
    try await threads.run(in: place) {}
    threads.stop()
  }

  @Test("Work that became late while it waited is not done")
  func lateInTheQueue() async throws {
    let (clock, gate) = (StandingClock(), ThreadGate())
    let threads = try await timedThreads(clock, gate)
    let isDone = Atomic(false)
    let place = try threads.reserve(until: clock.now + .milliseconds(65))
    let caller = Task {
      try await threads.run(in: place) { isDone.store(true, ordering: .relaxed) }
    }
    while threads.waiting == 0 { await Task.yield() }
    // It would be over after 66 ms.
    clock.advance(.milliseconds(41))
    gate.open()
    await #expect(throws: WorkerThreads.Refusal.late) { try await caller.value }
    let wasDone = isDone.load(ordering: .relaxed)
    #expect(!wasDone)
    threads.stop()
  }

  @Test("With nothing to do threads try whatever has time left, so that a slow spell does not last for ever")
  func idle() async throws {
    let clock = StandingClock()
    let threads = WorkerThreads(threads: 1, capacity: 8, now: { clock.now })
    try await threads.run { clock.advance(.seconds(60)) }
    while true {
      // The thread takes a moment to say that it is through.
      guard let place = try? threads.reserve(until: clock.now + .seconds(1)) else {
        await Task.yield()
        continue
      }
      try await threads.run(in: place) {}
      break
    }
    #expect(throws: WorkerThreads.Refusal.late) { try threads.reserve(until: clock.now) }
    threads.stop()
  }
}
