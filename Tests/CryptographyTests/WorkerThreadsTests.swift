import Glibc
import Synchronization
import TestSupport
import Testing

@testable import Cryptography

@Suite("Threads for blocking work")
struct WorkerThreadsTests {
  /// One thread, which waits at the gate.
  private func busyThreads(_ gate: ThreadGate, capacity: Int = 8, longestWait: Duration? = nil) async -> WorkerThreads {
    let threads = WorkerThreads(threads: 1, capacity: capacity, longestWait: longestWait)
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

  @Test("No more may wait than gets done in the longest wait, judged by what the last pieces took")
  func longestWait() async throws {
    let gate = ThreadGate()
    let threads = WorkerThreads(threads: 1, capacity: 8, longestWait: .milliseconds(30))
    _ = try await threads.run { usleep(20_000) }
    _ = threads.submit { gate.wait() }
    while threads.waiting > 0 { await Task.yield() }
    #expect(threads.submit {} == .accepted)
    #expect(threads.refusal == nil)
    // Two that wait are 40 ms of work.
    #expect(threads.submit {} == .accepted)
    #expect(threads.refusal == .full)
    #expect(threads.submit {} == .full)
    gate.open()
    threads.stop()
  }
}
