import Synchronization

/// Runs the tasks of a group on the thread that drains it, one after the other, so that a test sees when all of them wait.
final class Lane: TaskExecutor {
  private let jobs = Mutex<[UnownedJob]>([])

  func enqueue(_ job: consuming ExecutorJob) {
    let job = UnownedJob(job)
    jobs.withLock { $0.append(job) }
  }

  /// Until every task has ended or waits for something outside.
  func drain() {
    while let job = jobs.withLock({ $0.isEmpty ? nil : $0.removeFirst() }) {
      // Each job was handed over once and is run once.
      unsafe job.runSynchronously(on: asUnownedTaskExecutor())
    }
  }
}

/// What is loaded for a whole group of commands in one round trip: a load waits here until every command of the group waits
/// or is done.
final class Batch: Sendable {
  private let waiting = Mutex<[CheckedContinuation<Void, Never>]>([])

  /// How many loads wait.
  var count: Int { waiting.withLock { $0.count } }

  func load() async {
    await withCheckedContinuation { continuation in waiting.withLock { $0.append(continuation) } }
  }

  /// The round trip: everything that waits is answered.
  func answer() {
    let loaded = waiting.withLock { waiting in
      defer { waiting = [] }
      return waiting
    }
    for continuation in loaded { continuation.resume() }
  }
}
