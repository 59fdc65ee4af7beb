import Callers
import DequeModule
import Glibc

/// A bounded queue between tasks, which must never block, and the engine's own threads, which may.
///
/// `push` refuses instead of waiting; `pop` waits for an element and returns nothing once the queue is closed and
/// drained.
///
/// Where more comes than the rule lets in, sources that have far less waiting than another are let in all the same, to a
/// short line of their own. Each of the two lines is served by turns while somebody stands in both.
// Sendable: every stored variable is touched only while `mutex` is held.
@safe final class BlockingQueue<Element: Sendable>: @unchecked Sendable {
  enum Admission {
    case accepted
    /// No room is left, or what waits takes too long for more to be worth its while.
    case full
    case closed
  }

  private let mutex: UnsafeMutablePointer<pthread_mutex_t>
  private let arrived: UnsafeMutablePointer<pthread_cond_t>
  private let capacity: Int
  /// Nil where only the capacity counts.
  private var rule: WaitingRule?
  /// Tells those who let calls in whether the rule lets anything in, and whose.
  let backlog = Backlog()
  private struct Place {
    let element: Element
    let holder: NetworkAddress?
    let since: ContinuousClock.Instant
  }

  private var elements = Deque<Place>()
  /// Of sources with little, which found no room.
  private var few = Deque<Place>()
  private var wasOfFew = false
  private var sleepers = 0
  private var hasClosed = false

  /// - Parameters:
  ///   - capacity: how much may wait.
  ///   - bounds: how long may be waited; nil for as long as it takes.
  init(capacity: Int, bounds: WaitingRule.Bounds? = nil) {
    precondition(capacity > 0, "a queue that takes nothing serves nobody")
    self.capacity = capacity
    rule = bounds.map { WaitingRule($0) }
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

  var count: Int { withLock { elements.count + few.count } }

  var isClosed: Bool { withLock { hasClosed } }

  /// - Parameters:
  ///   - holder: whose it is; see ``CallPlace/holder``.
  ///   - isOwed: it is taken however much waits; see ``CallPlace/isOwed``.
  func push(
    _ element: Element, of holder: NetworkAddress? = nil, isOwed: Bool = false, at now: ContinuousClock.Instant = .now
  ) -> Admission {
    withLock {
      if hasClosed { return .closed }
      let place = Place(element: element, holder: holder, since: now)
      let isAdmitted = admitsLocked(at: now)
      if !isAdmitted, rule != nil, backlog.enterOfFew(holder) {
        few.append(place)
      } else if isAdmitted || isOwed {
        elements.append(place)
        backlog.entered(holder)
      } else {
        return .full
      }
      if sleepers > 0 {
        // Called with the mutex held.
        unsafe pthread_cond_signal(arrived)
      }
      return .accepted
    }
  }

  private func admitsLocked(at now: ContinuousClock.Instant) -> Bool {
    let hasPlace = elements.count < capacity
    guard rule != nil else { return hasPlace }
    let isAdmitted = rule?.admits(
      waiting: elements.count, first: elements.first?.since, hasPlace: hasPlace, at: now)
    if isAdmitted == false { backlog.isLong = true }
    return isAdmitted ?? hasPlace
  }

  /// Waits for at least one element. Empty: the queue is closed and drained.
  ///
  /// - Parameter done: how many of those before have been worked on since the last call, and not dropped.
  func pop(upTo count: Int, done: Int = 0) -> [Element] {
    withLock {
      let hadRested = elements.isEmpty && few.isEmpty
      while elements.isEmpty && few.isEmpty && !hasClosed {
        sleepers += 1
        // Called with the mutex held, which the wait gives back before it returns.
        unsafe pthread_cond_wait(arrived, mutex)
        sleepers -= 1
      }
      return takeLocked(count, done: done, hadRested: hadRested)
    }
  }

  /// What is there now, without waiting.
  func popAvailable(upTo count: Int) -> [Element] {
    withLock { takeLocked(count, done: 0, hadRested: false) }
  }

  private func takeLocked(_ count: Int, done: Int, hadRested: Bool) -> [Element] {
    var taken: [Element] = []
    taken.reserveCapacity(min(count, elements.count + few.count))
    while taken.count < count, let next = nextLocked() { taken.append(next) }
    if rule != nil, !taken.isEmpty {
      rule?.taken(
        done: done, hadRested: hadRested, left: elements.count, first: elements.first?.since, at: .now)
      backlog.isLong = rule?.isFull ?? false
    }
    return taken
  }

  private func nextLocked() -> Element? {
    wasOfFew = !few.isEmpty && (!wasOfFew || elements.isEmpty)
    guard let next = wasOfFew ? few.popFirst() : elements.popFirst() else { return nil }
    if wasOfFew { backlog.leftOfFew(next.holder) } else { backlog.left(next.holder) }
    return next.element
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
