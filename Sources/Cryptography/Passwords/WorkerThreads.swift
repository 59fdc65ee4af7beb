import Glibc

/// A few threads of our own that run blocking work in turn, with a bounded queue: Argon2 takes 60 ms, which an event
/// loop or Swift's cooperative pool must never spend.
@safe package final class WorkerThreads: @unchecked Sendable {
  // `lock` guards everything below it; `wake` tells the threads of new work. Both live at stable addresses until
  // `deinit`, which runs only after the last thread has let go of `self`.
  private let lock: UnsafeMutablePointer<pthread_mutex_t>
  private let wake: UnsafeMutablePointer<pthread_cond_t>
  private var queue: [@Sendable () -> Void] = []
  private var isStopped = false

  private let capacity: Int

  package init(threads: Int, capacity: Int) {
    precondition(threads > 0 && capacity > 0)
    self.capacity = capacity
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

  /// Queues `work`, unless too much waits already.
  package func submit(_ work: @escaping @Sendable () -> Void) -> Submission {
    withLock {
      guard !isStopped else { return .stopped }
      guard queue.count < capacity else { return .full }
      queue.append(work)
      // Any waiting thread may take it.
      unsafe pthread_cond_signal(wake)
      return .accepted
    }
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

  private func next() -> (@Sendable () -> Void)? {
    withLock {
      while queue.isEmpty {
        if isStopped { return nil }
        // Called with the mutex held, as pthread_cond_wait requires.
        unsafe pthread_cond_wait(wake, lock)
      }
      return queue.removeFirst()
    }
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
        while let work = workers.next() { work() }
        return nil
      },
      reference
    )
    precondition(status == 0, "a thread could not be started")
    pthread_detach(thread)
  }
}
