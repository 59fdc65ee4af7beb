import DequeModule
import Glibc

/// A bounded queue between tasks, which must never block, and the engine's own threads, which may.
///
/// `push` refuses instead of waiting; `pop` waits for an element and returns nothing once the queue is closed and
/// drained.
// Sendable: every stored variable is touched only while `mutex` is held.
@safe final class BlockingQueue<Element: Sendable>: @unchecked Sendable {
  enum Admission {
    case accepted
    case full
    case closed
  }

  private let mutex: UnsafeMutablePointer<pthread_mutex_t>
  private let arrived: UnsafeMutablePointer<pthread_cond_t>
  private let capacity: Int
  private var elements = Deque<Element>()
  private var sleepers = 0
  private var hasClosed = false

  init(capacity: Int) {
    precondition(capacity > 0, "a queue that takes nothing serves nobody")
    self.capacity = capacity
    // Both live exactly as long as the queue, at one address, as POSIX asks; initialising them with default
    // attributes cannot fail on Linux.
    unsafe mutex = .allocate(capacity: 1)
    unsafe arrived = .allocate(capacity: 1)
    unsafe mutex.initialize(to: pthread_mutex_t())
    unsafe arrived.initialize(to: pthread_cond_t())
    unsafe pthread_mutex_init(mutex, nil)
    unsafe pthread_cond_init(arrived, nil)
  }

  deinit {
    // Nobody waits: a waiting thread holds a reference to the queue.
    unsafe pthread_cond_destroy(arrived)
    unsafe pthread_mutex_destroy(mutex)
    unsafe arrived.deallocate()
    unsafe mutex.deallocate()
  }

  private func withLock<Result>(_ body: () -> Result) -> Result {
    // Initialised in `init`, never moved, and unlocked on the same thread.
    unsafe pthread_mutex_lock(mutex)
    defer { unsafe pthread_mutex_unlock(mutex) }
    return body()
  }

  var count: Int { withLock { elements.count } }

  var isClosed: Bool { withLock { hasClosed } }

  func push(_ element: Element) -> Admission {
    withLock {
      if hasClosed { return .closed }
      if elements.count >= capacity { return .full }
      elements.append(element)
      if sleepers > 0 {
        // Called with the mutex held.
        unsafe pthread_cond_signal(arrived)
      }
      return .accepted
    }
  }

  /// Waits for at least one element. Empty: the queue is closed and drained.
  func pop(upTo count: Int) -> [Element] {
    withLock {
      while elements.isEmpty && !hasClosed {
        sleepers += 1
        // Called with the mutex held, which the wait gives back before it returns.
        unsafe pthread_cond_wait(arrived, mutex)
        sleepers -= 1
      }
      return takeLocked(count)
    }
  }

  /// What is there now, without waiting.
  func popAvailable(upTo count: Int) -> [Element] {
    withLock { takeLocked(count) }
  }

  private func takeLocked(_ count: Int) -> [Element] {
    let taken = Array(elements.prefix(count))
    elements.removeFirst(taken.count)
    return taken
  }

  /// Takes nothing more; what is there is still handed out.
  func close() {
    withLock {
      hasClosed = true
      // Called with the mutex held.
      unsafe pthread_cond_broadcast(arrived)
    }
  }
}
