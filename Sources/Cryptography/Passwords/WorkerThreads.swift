import Glibc

/// A few threads of our own that run blocking work in turn, with a bounded queue: Argon2 takes 60 ms, which an event
/// loop or Swift's cooperative pool must never spend.
@safe package final class WorkerThreads: @unchecked Sendable {
  // `lock` guards everything below it; `wake` tells the threads of new work. Both live at stable addresses until
  // `deinit`, which runs only after the last thread has let go of `self`.
  private let lock: UnsafeMutablePointer<pthread_mutex_t>
  private let wake: UnsafeMutablePointer<pthread_cond_t>
  private var queue: [Work] = []
  private var lastNumber: UInt64 = 0
  /// How long a piece of work took of late.
  private var usual = Duration.zero
  private var isStopped = false

  private let threads: Int
  private let capacity: Int
  private let longestWait: Duration?

  private struct Work {
    let number: UInt64
    let run: @Sendable () -> Void
    /// Called instead of `run` when nobody wants the result any more.
    let withdrawn: @Sendable () -> Void
  }

  /// - Parameters:
  ///   - capacity: how much may wait.
  ///   - longestWait: no more may wait than the threads get done in this time, judged by what the last pieces took.
  package init(threads: Int, capacity: Int, longestWait: Duration? = nil) {
    precondition(threads > 0 && capacity > 0)
    self.threads = threads
    self.capacity = capacity
    self.longestWait = longestWait
    unsafe lock = .allocate(capacity: 1)
    unsafe wake = .allocate(capacity: 1)
    // Initialising with default attributes cannot fail on Linux.
    unsafe pthread_mutex_init(lock, nil)
    unsafe pthread_cond_init(wake, nil)
    for _ in 0..<threads { startThread() }
  }

  deinit {
    // No thread runs any more: each holds a reference while it runs.
    unsafe pthread_cond_destroy(wake)
    unsafe pthread_mutex_destroy(lock)
    unsafe wake.deallocate()
    unsafe lock.deallocate()
  }

  package enum Submission {
    case accepted
    case full
    case stopped
  }

  /// Why work was not done.
  package enum Refusal: Error, Sendable {
    /// Too much waits already.
    case full
    case stopped
    /// The calling task was cancelled before a thread came to it.
    case withdrawn
  }

  /// Queues `work`, unless too much waits already.
  package func submit(_ work: @escaping @Sendable () -> Void) -> Submission {
    withLock { append(Work(number: 0, run: work, withdrawn: {})) }
  }

  /// Runs `work` on one of the threads and returns its result; leaves the queue when the calling task is cancelled.
  package func run<Value: Sendable>(_ work: @escaping @Sendable () -> Value) async throws(Refusal) -> Value {
    let number = withLock {
      lastNumber += 1
      return lastNumber
    }
    let result: Result<Value, Refusal> = await withTaskCancellationHandler {
      await withCheckedContinuation { continuation in
        let item = Work(
          number: number,
          run: { continuation.resume(returning: .success(work())) },
          withdrawn: { continuation.resume(returning: .failure(.withdrawn)) }
        )
        switch withLock({ append(item) }) {
        case .full: continuation.resume(returning: .failure(.full))
        case .stopped: continuation.resume(returning: .failure(.stopped))
        // A cancellation that came before found nothing to withdraw.
        case .accepted: if Task.isCancelled { withdraw(number) }
        }
      }
    } onCancel: {
      withdraw(number)
    }
    return try result.get()
  }

  /// Why work would be refused now; nil when it would not.
  package var refusal: Refusal? {
    withLock {
      if isStopped { return .stopped }
      return isFull ? .full : nil
    }
  }

  /// What no thread has begun yet.
  package var waiting: Int { withLock { queue.count } }

  // Call with the lock held.
  private var isFull: Bool {
    if queue.count >= capacity { return true }
    guard let longestWait else { return false }
    return usual * queue.count >= longestWait * threads
  }

  // Call with the lock held.
  private func append(_ work: Work) -> Submission {
    guard !isStopped else { return .stopped }
    guard !isFull else { return .full }
    queue.append(work)
    // Any waiting thread may take it.
    unsafe pthread_cond_signal(wake)
    return .accepted
  }

  private func withdraw(_ number: UInt64) {
    let work = withLock {
      queue.firstIndex { $0.number == number }.map { queue.remove(at: $0) }
    }
    work?.withdrawn()
  }

  /// Ends the threads once what is queued has run. Later submissions are refused.
  package func stop() {
    withLock {
      isStopped = true
      unsafe pthread_cond_broadcast(wake)
    }
  }

  private func withLock<Result>(_ body: () -> Result) -> Result {
    // The mutex is initialised and not held by this thread.
    unsafe pthread_mutex_lock(lock)
    defer { unsafe pthread_mutex_unlock(lock) }
    return body()
  }

  private func next() -> Work? {
    withLock {
      while queue.isEmpty {
        if isStopped { return nil }
        // Called with the mutex held, as pthread_cond_wait requires.
        unsafe pthread_cond_wait(wake, lock)
      }
      return queue.removeFirst()
    }
  }

  private func run(_ work: Work) {
    let start = ContinuousClock.now
    work.run()
    let time = ContinuousClock.now - start
    withLock { usual = usual == .zero ? time : (usual * 3 + time) / 4 }
  }

  private func startThread() {
    var thread = pthread_t()
    // The retained reference is taken back by the thread's first line, exactly once.
    let reference = unsafe Unmanaged.passRetained(self).toOpaque()
    let status = unsafe pthread_create(
      &thread,
      nil,
      { argument in
        guard let argument = unsafe argument else { return nil }
        let workers = unsafe Unmanaged<WorkerThreads>.fromOpaque(argument).takeRetainedValue()
        while let work = workers.next() { workers.run(work) }
        return nil
      },
      reference
    )
    precondition(status == 0, "a thread could not be started")
    pthread_detach(thread)
  }
}
