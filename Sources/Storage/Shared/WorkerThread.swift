import Glibc

/// A thread of our own, for what blocks, such as SQLite and libpq: neither an event loop nor the cooperative pool may.
package struct WorkerThread: Sendable {
  private let thread: pthread_t

  private final class Start {
    let body: @Sendable () -> Void

    init(_ body: @escaping @Sendable () -> Void) {
      self.body = body
    }
  }

  /// The thread that asks.
  package static var current: WorkerThread { WorkerThread(thread: pthread_self()) }

  /// Blocks until the thread is gone, with all that libraries keep for it. Once, and for one that was started to be joined.
  package func join() { pthread_join(thread, nil) }

  /// Has the thread leave nothing behind when it ends, or has ended. In the place of ``join()``.
  package func detach() { pthread_detach(thread) }

  /// Starts a thread that runs `body` and ends. False: the system has no thread left.
  ///
  /// - Parameter isJoined: somebody will ``join()`` or ``detach()`` it. Otherwise it is detached.
  package static func start(isJoined: Bool = false, _ body: @escaping @Sendable () -> Void) -> Bool {
    var thread = pthread_t()
    // The reference travels to the thread as a retained pointer and is taken back there exactly once, or here when
    // there is no thread to take it.
    let start = unsafe Unmanaged.passRetained(Start(body))
    let code = unsafe pthread_create(
      &thread, nil,
      { argument in
        let start = unsafe Unmanaged<Start>.fromOpaque(argument!).takeRetainedValue()
        WorkerThread.blockSignals()
        start.body()
        return nil
      }, start.toOpaque())
    guard code == 0 else {
      unsafe start.release()
      return false
    }
    if !isJoined { pthread_detach(thread) }
    return true
  }

  /// Signals are for the main thread.
  private static func blockSignals() {
    var all = sigset_t()
    // Both calls fill or read the set through the pointer and keep nothing.
    unsafe sigfillset(&all)
    unsafe pthread_sigmask(SIG_BLOCK, &all, nil)
  }
}
