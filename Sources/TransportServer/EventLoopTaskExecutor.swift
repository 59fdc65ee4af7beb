internal import Callers
internal import NIOCore
internal import Synchronization
internal import Transport

/// Runs the tasks of one connection, or of one of the clients that share it, on its event loop, so that a call's handler,
/// its connection and its timers never need a lock; in turns with those of others when there is much to do.
///
///     enqueued ──▶ run, until the turn is over ──▶ the rest waits for the next turn
final class EventLoopTaskExecutor: TaskExecutor, TurnTaker, ChoreQueue, @unchecked Sendable {
  // Unchecked: what is not behind the lock is only touched on the event loop.

  private struct Queue {
    var jobs: [UnownedJob] = []
    /// Somebody is going to look at the jobs.
    var isAwake = false
  }

  let turns: LoopTurns
  /// Whose the connection is, as far as that is known, or who the client is.
  var source: TurnSource
  /// The connection's own, of a client's: all that is done for its clients is done for it.
  private let connection: EventLoopTaskExecutor?
  let eventLoop: any EventLoop
  private let queue = Mutex(Queue())
  /// The jobs that were taken from the queue, and the next of them.
  private var batch: [UnownedJob] = []
  private var next = 0
  /// Tasks that wait for their connection's next turn.
  private var paused: [CheckedContinuation<Void, Never>] = []
  private var isWaiting = false
  /// The work for others that was done when the wait for a turn began.
  private var waitBegin = TimeAmount.zero
  /// When the connection's turn has to end.
  var turnEnd = NIODeadline.uptimeNanoseconds(0)
  /// Since when the turns are counted that the connection took without waiting, and how long they were.
  private var countedFrom = NIODeadline.uptimeNanoseconds(0)
  private var taken = TimeAmount.zero
  /// How long all work for the connection took.
  private var ownWork = TimeAmount.zero
  /// Called at the end of a turn, which it still belongs to: what the tasks have made goes out.
  var hasRun: (() -> Void)?
  /// Called when the work of the connection no longer has to wait.
  var caughtUp: (() -> Void)?

  /// Whether something of the connection waits for its turn.
  var isBehind: Bool { isWaiting }

  /// How long the loop has worked for other connections.
  var othersWork: TimeAmount { turns.counted - ownWork }

  init(_ turns: LoopTurns, of source: TurnSource = .address(nil), within connection: EventLoopTaskExecutor? = nil) {
    self.turns = turns
    self.source = source
    self.connection = connection
    eventLoop = turns.eventLoop
  }

  convenience init(_ eventLoop: any EventLoop) {
    self.init(LoopTurns(eventLoop))
  }

  /// How long the loop has worked for others while tasks of the connection wait for their turn.
  var waited: TimeAmount { isWaiting ? othersWork - waitBegin : .zero }

  /// Work for the connection was done.
  func worked(from start: NIODeadline, until end: NIODeadline) {
    countOwn(end - start)
    turns.worked(from: start, until: end)
  }

  private func countOwn(_ work: TimeAmount) {
    ownWork = ownWork + work
    connection?.countOwn(work)
  }

  /// Does `work` for the connection at once if there is time for it. False when it has to wait.
  func promptly(_ work: () -> Void) -> Bool {
    turns.promptly {
      let start = eventLoop.now
      work()
      countOwn(eventLoop.now - start)
    }
  }

  /// Does what is ready at once, within another's turn: what frees something does not wait for those who hold it.
  func doNow() { doNow(until: eventLoop.now + Limits.turn) }

  func doNow(until end: NIODeadline) {
    let start = eventLoop.now
    _ = takeJobs(until: end)
    hasRun?()
    worked(from: start, until: eventLoop.now)
  }

  /// Does `chore` for the new connection at once, or when there is time for it.
  func soon(_ chore: @escaping () -> Void) { turns.soonForNewcomer(of: source, chore) }

  func after(_ delay: TimeAmount, _ chore: @escaping () -> Void) -> () -> Void {
    let timer = schedule(at: eventLoop.now + delay, chore)
    return { timer.cancel() }
  }

  /// Has `action` called once, at `deadline` or as soon afterwards as there is time.
  func schedule(at deadline: NIODeadline, _ action: @escaping () -> Void) -> LoopTimer {
    turns.timers.schedule(at: deadline, action)
  }

  func enqueue(_ job: consuming ExecutorJob) {
    // What owns it may be the job's task, which may be over before this returns.
    let kept = unsafe Unmanaged.passRetained(self)
    defer { unsafe kept.release() }
    let job = UnownedJob(job)
    let isFirst = queue.withLock { queue in
      queue.jobs.append(job)
      defer { queue.isAwake = true }
      return !queue.isAwake
    }
    if isFirst { eventLoop.execute { self.begin() } }
  }

  /// Returns when the connection's next turn comes: at once while this one lasts.
  ///
  /// For who goes on for long without waiting for anything.
  func nextTurn() async {
    guard eventLoop.inEventLoop, eventLoop.now >= turnEnd else { return }
    await withCheckedContinuation { continuation in
      paused.append(continuation)
      wait()
    }
  }

  private func begin() {
    // Then the turn that comes will do it.
    guard !isWaiting else { return }
    let now = eventLoop.now
    // The end of one turn may make jobs for another before the loop looks at its sockets.
    if now - countedFrom > .nanoseconds(2 * taken.nanoseconds) {
      countedFrom = now
      taken = .zero
    } else if taken >= Limits.turn {
      return wait()
    }
    guard turns.admits(at: now) else { return wait() }
    let hasMore = takeJobs(until: turns.end(ofTurnFrom: now))
    hasRun?()
    let end = eventLoop.now
    taken = taken + (end - now)
    worked(from: now, until: end)
    if hasMore { wait() }
  }

  private func wait() {
    guard !isWaiting else { return }
    isWaiting = true
    waitBegin = othersWork
    turns.wait(self)
  }

  var isBegun: Bool { true }

  func takeTurn(until end: NIODeadline) -> Bool {
    let start = eventLoop.now
    let tasks = paused
    paused = []
    for task in tasks { task.resume() }
    let hasMore = takeJobs(until: end)
    hasRun?()
    worked(from: start, until: eventLoop.now)
    waitBegin = othersWork
    guard !hasMore else { return true }
    isWaiting = false
    caughtUp?()
    return false
  }

  private func takeJobs(until end: NIODeadline) -> Bool {
    turnEnd = end
    while next < batch.count || refill() {
      let job = batch[next]
      next += 1
      // Each job was enqueued once and is run once, and `self` is alive until then.
      unsafe job.runSynchronously(on: asUnownedTaskExecutor())
      if eventLoop.now >= end { return next < batch.count || refill() || !paused.isEmpty }
    }
    return !paused.isEmpty
  }

  /// False when there is nothing left to do.
  private func refill() -> Bool {
    batch.removeAll(keepingCapacity: batch.capacity <= Limits.keptJobs)
    next = 0
    return queue.withLock { queue in
      swap(&batch, &queue.jobs)
      queue.isAwake = !batch.isEmpty
      return queue.isAwake
    }
  }
}
