import Glibc
import Synchronization

/// A few threads of our own that run blocking work in turn, with a bounded queue: Argon2 takes 60 ms, which an event
/// loop or Swift's cooperative pool must never spend.
///
/// Work that is wanted by a deadline is refused at once when what waits before it, at the pace of the last pieces, leaves
/// it no time; and once it waits, as soon as that is clear. So the threads are kept for work that somebody still wants.
///
/// What is refused for want of room or time is taken all the same for a source that has far less waiting than another: in a
/// short line of its own. Each of the two lines is served by turns while somebody stands in both.
///
///     reserve ──▶ place ──▶ waiting ──▶ running ──▶ result
///        └── full, late      └── withdrawn, late
@safe package final class WorkerThreads: @unchecked Sendable {
  /// Who wants work done, such as an address by its number.
  package typealias Holder = SIMD2<UInt64>

  // `lock` guards everything below it; `wake` tells the threads of new work. Both live at stable addresses until
  // `deinit`, which runs only after the last thread has let go of `self`.
  private let lock: UnsafeMutablePointer<pthread_mutex_t>
  private let wake: UnsafeMutablePointer<pthread_cond_t>
  private var lines = [Line(), Line()]
  private var wasOfFew = false
  private var lastNumber: UInt64 = 0
  private var running = 0
  /// How long a piece of work took of late.
  private var usual = Duration.zero
  private var isStopped = false

  private let threads: Int
  private let capacity: Int
  private let longestWait: Duration?
  private let now: @Sendable () -> ContinuousClock.Instant
  private let holder: @Sendable () -> Holder?

  /// Work that waits; the second line is of those with little.
  private struct Line {
    var queue: [Work] = []
    /// Places that were given out and hold no work yet.
    var reserved = 0
    /// How much of it each source has.
    var held: [Holder?: Int] = [:]

    var count: Int { queue.count + reserved }

    func held(by holder: Holder?) -> Int { held[holder, default: 0] }

    mutating func entered(_ holder: Holder?) { held[holder, default: 0] += 1 }

    mutating func left(_ holder: Holder?) {
      let count = held(by: holder) - 1
      held[holder] = count > 0 ? count : nil
    }
  }

  fileprivate enum Which: Int, CaseIterable {
    case all
    case few
  }

  private struct Work {
    let number: UInt64
    let holder: Holder?
    /// Begun after this it would come too late.
    let latestStart: ContinuousClock.Instant?
    let run: @Sendable () -> Void
    /// Called instead of `run` when nobody wants the result any more.
    let refuse: @Sendable (Refusal) -> Void
  }

  /// - Parameters:
  ///   - capacity: how much may wait.
  ///   - longestWait: no more may wait than the threads get done in this time, judged by what the last pieces took.
  ///   - now: the clock of deadlines, and by which work is timed.
  ///   - holder: whose work the current task does; nil for nobody's in particular.
  package init(
    threads: Int,
    capacity: Int,
    longestWait: Duration? = nil,
    now: @escaping @Sendable () -> ContinuousClock.Instant = { .now },
    holder: @escaping @Sendable () -> Holder? = { nil }
  ) {
    precondition(threads > 0 && capacity > 0)
    self.threads = threads
    self.capacity = capacity
    self.longestWait = longestWait
    self.holder = holder
    self.now = now
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
    /// The deadline has passed, or will have before the work could be done.
    case late
    case stopped
    /// The calling task was cancelled before a thread came to it.
    case withdrawn
  }

  /// Queues `work`, unless too much waits already.
  package func submit(_ work: @escaping @Sendable () -> Void) -> Submission {
    withLock {
      switch refusal(until: nil) {
      case .stopped: return .stopped
      case .some: return .full
      case nil:
        lines[Which.all.rawValue].entered(nil)
        append(Work(number: 0, holder: nil, latestStart: nil, run: work, refuse: { _ in }), to: .all)
        return .accepted
      }
    }
  }

  /// A place in the queue, kept for who has something else to do before its work: it is given back when the place goes.
  package final class Place: Sendable {
    fileprivate let workers: WorkerThreads
    fileprivate let number: UInt64
    fileprivate let holder: Holder?
    fileprivate let line: Which
    fileprivate let latestStart: ContinuousClock.Instant?
    private let isUsed = Atomic(false)

    fileprivate init(
      _ workers: WorkerThreads, _ number: UInt64, of holder: Holder?, in line: Which,
      _ latestStart: ContinuousClock.Instant?
    ) {
      self.workers = workers
      self.number = number
      self.holder = holder
      self.line = line
      self.latestStart = latestStart
    }

    deinit {
      if use() { workers.giveBack(self) }
    }

    /// False when it was used before.
    fileprivate func use() -> Bool { !isUsed.exchange(true, ordering: .relaxed) }
  }

  /// Keeps a place for work whose result is wanted by `deadline`, for the source that the current task's call comes from.
  package func reserve(until deadline: ContinuousClock.Instant? = nil) throws(Refusal) -> Place {
    let holder = self.holder()
    let result: Result<Place, Refusal> = withLock {
      line(for: holder, until: deadline).map { line in
        // Whoever waits for nobody may try: a pace that was bad once is measured again only by working.
        let latestStart = ahead == 0 ? deadline : deadline.map { $0 - needed }
        lines[line.rawValue].reserved += 1
        lines[line.rawValue].entered(holder)
        lastNumber += 1
        return Place(self, lastNumber, of: holder, in: line, latestStart)
      }
    }
    return try result.get()
  }

  /// Throws when ``reserve(until:)`` would just now, and keeps nothing.
  package func check(until deadline: ContinuousClock.Instant? = nil) throws(Refusal) {
    let holder = self.holder()
    _ = try withLock({ line(for: holder, until: deadline) }).get()
  }

  private func giveBack(_ place: Place) {
    withLock {
      lines[place.line.rawValue].reserved -= 1
      lines[place.line.rawValue].left(place.holder)
    }
  }

  /// Runs `work` on one of the threads and returns its result; leaves the queue when the calling task is cancelled, or
  /// when it has become clear that the result would come too late.
  ///
  /// - Parameter place: taken from these threads, and not used before; nil for a new one without a deadline.
  package func run<Value: Sendable>(
    in place: Place? = nil,
    _ work: @escaping @Sendable () -> Value
  ) async throws(Refusal) -> Value {
    let place = if let place { place } else { try reserve() }
    precondition(place.workers === self && place.use(), "a place is for one piece of work")
    let (number, line) = (place.number, place.line)
    let result: Result<Value, Refusal> = await withTaskCancellationHandler {
      await withCheckedContinuation { continuation in
        let item = Work(
          number: number,
          holder: place.holder,
          latestStart: place.latestStart,
          run: { continuation.resume(returning: .success(work())) },
          refuse: { continuation.resume(returning: .failure($0)) }
        )
        let isAccepted = withLock {
          lines[line.rawValue].reserved -= 1
          if isStopped { lines[line.rawValue].left(item.holder) } else { append(item, to: line) }
          return !isStopped
        }
        if !isAccepted {
          continuation.resume(returning: .failure(.stopped))
        } else if Task.isCancelled {
          // A cancellation that came before found nothing to withdraw.
          withdraw(number)
        }
      }
    } onCancel: {
      withdraw(number)
    }
    return try result.get()
  }

  /// What no thread has begun yet.
  package var waiting: Int { withLock { lines.reduce(0) { $0 + $1.queue.count } } }

  /// Work that waits, and places that are kept for work.
  package var taken: Int { withLock { waits } }

  // Call with the lock held.
  private var waits: Int { lines[0].count + lines[1].count }

  // Call with the lock held.
  private var isFull: Bool {
    let waiting = waits
    if waiting >= capacity { return true }
    guard let longestWait else { return false }
    return usual * waiting >= longestWait * threads
  }

  /// What work needs before its deadline: itself, and what its caller does with the result. Call with the lock held.
  private var needed: Duration { usual + usual / Limits.partAfterWork }

  /// What comes before work that is queued now. Call with the lock held.
  private var ahead: Int { waits + running }

  /// Whether a source, with one more, has far less than another, and no more in the line of the few than stays free there.
  /// Call with the lock held.
  private func takesOfFew(_ holder: Holder?) -> Bool {
    let (all, few) = (lines[Which.all.rawValue], lines[Which.few.rawValue])
    return all.held(by: holder) + few.held(by: holder) < (all.held.values.max() ?? 0) / Limits.muchMore
      && few.count < Limits.workOfFew && few.held(by: holder) + 2 <= Limits.workOfFew - few.count
  }

  /// Where work of a holder that is wanted by `deadline` may wait. Call with the lock held.
  private func line(for holder: Holder?, until deadline: ContinuousClock.Instant?) -> Result<Which, Refusal> {
    guard let refusal = refusal(until: deadline) else { return .success(.all) }
    let few = lines[Which.few.rawValue].count
    guard refusal != .stopped, takesOfFew(holder) else { return .failure(refusal) }
    // One of the others goes before each of these.
    if let deadline, isLate(behind: 2 * few + running, deadline) { return .failure(.late) }
    return .success(.few)
  }

  /// Why work that is wanted by `deadline` is not taken; nil when it is. Call with the lock held.
  private func refusal(until deadline: ContinuousClock.Instant?) -> Refusal? {
    if isStopped { return .stopped }
    if let deadline {
      if isLate(behind: ahead, deadline) { return .late }
    }
    return isFull ? .full : nil
  }

  // Call with the lock held.
  private func isLate(behind ahead: Int, _ deadline: ContinuousClock.Instant) -> Bool {
    let left = now().duration(to: deadline)
    if left <= .zero { return true }
    // Twice what it will wait, as far as is known: no more than half of its time goes by in the queue. A queue that is
    // filled to the brim answers each just before its end, and does much for those who have gone by then.
    return ahead > 0 && usual * (ahead / threads) * 2 + needed > left
  }

  /// What has entered its holder's share already. Call with the lock held.
  private func append(_ work: Work, to line: Which) {
    lines[line.rawValue].queue.append(work)
    // Any waiting thread may take it.
    unsafe pthread_cond_signal(wake)
  }

  private func withdraw(_ number: UInt64) {
    let work: Work? = withLock {
      for line in lines.indices {
        guard let index = lines[line].queue.firstIndex(where: { $0.number == number }) else { continue }
        let work = lines[line].queue.remove(at: index)
        lines[line].left(work.holder)
        return work
      }
      return nil
    }
    work?.refuse(.withdrawn)
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

  /// Waits for work that is still in time. Nil: nothing more will come.
  private func next() -> Work? {
    while true {
      let (late, work): ([Work], Work?) = withLock {
        while lines.allSatisfy(\.queue.isEmpty) {
          if isStopped { return ([], nil) }
          // Called with the mutex held, as pthread_cond_wait requires.
          unsafe pthread_cond_wait(wake, lock)
        }
        let late = takeLate()
        guard let work = takeFirst() else { return (late, nil) }
        running += 1
        return (late, work)
      }
      for work in late { work.refuse(.late) }
      if work != nil || late.isEmpty { return work }
    }
  }

  /// Of both lines by turns. Call with the lock held.
  private func takeFirst() -> Work? {
    let (all, few) = (lines[0].queue.isEmpty, lines[1].queue.isEmpty)
    if all, few { return nil }
    wasOfFew = !few && (!wasOfFew || all)
    let line = wasOfFew ? 1 : 0
    let work = lines[line].queue.removeFirst()
    lines[line].left(work.holder)
    return work
  }

  /// Takes what could no longer be done in time out of the queue. Call with the lock held.
  private func takeLate() -> [Work] {
    let now = now()
    var late: [Work] = []
    for line in lines.indices {
      let others = late.count
      lines[line].queue.removeAll { work in
        guard let latest = work.latestStart, latest < now else { return false }
        late.append(work)
        return true
      }
      for work in late.dropFirst(others) { lines[line].left(work.holder) }
    }
    return late
  }

  private func run(_ work: Work) {
    let start = now()
    work.run()
    let time = start.duration(to: now())
    withLock {
      running -= 1
      usual = usual == .zero ? time : (usual * 3 + time) / 4
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
        while let work = workers.next() { workers.run(work) }
        return nil
      },
      reference
    )
    precondition(status == 0, "a thread could not be started")
    pthread_detach(thread)
  }
}
