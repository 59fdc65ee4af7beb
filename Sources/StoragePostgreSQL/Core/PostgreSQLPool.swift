import Callers
import Glibc
import LatchkeyModel
import Storage
import Synchronization

/// A database's connections, a thread each, and what waits for them.
///
/// An operation goes to the connection that was used last, so that few are busy when little is to do. While no connection
/// stands, operations are refused at once; those lost are made anew one after the other, at most one attempt a second
/// whatever the reason, and each only after the old one is closed.
final class PostgreSQLPool: Sendable {
  struct State {
    /// By the threads' numbers.
    var wakes: [PostgreSQLWake] = []
    /// Numbers of the threads that sleep beside a connection; the last one slept least.
    var idle: [Int] = []
    /// The thread that was woken to fetch work and has not come yet.
    var called: Int?
    /// The idle thread that comes by itself when work may be begun that waits for more of its kind.
    var watcher: Int?
    var queue: PostgreSQLQueue
    var room = DiskRoom()
    var servers = ServerChoice()
    var unknown = UnknownCommits()
    var connected = 0
    var running = 0
    var isClosed = false
    /// Why there is no connection.
    var failure: StorageError?
    var nextAttempt = ContinuousClock.now
    var enders: [CheckedContinuation<Void, Never>] = []
    /// The thread that ended last, which nobody has joined yet.
    var gone: WorkerThread?

    mutating func hasConnected() {
      connected += 1
      failure = nil
    }
  }

  let url: PostgreSQLURL
  let part: String
  /// See ``PostgreSQLSchema/isFoundByKeys``.
  private let isFoundByKeys: Bool
  let cells: Cells
  private let patience: PostgreSQLPatience
  private let hasLanes: Bool
  /// Whether more waits than can be done in time.
  let backlog = Backlog()
  let state: Mutex<State>
  /// Held by who joins the last thread, so that nobody else who ends goes on before that.
  private let joining = Mutex(())

  init(
    _ url: PostgreSQLURL, part: String, cells: Cells, patience: PostgreSQLPatience, hasLanes: Bool = false,
    isFoundByKeys: Bool = false
  ) {
    self.isFoundByKeys = isFoundByKeys
    self.hasLanes = hasLanes
    self.cells = cells
    self.patience = patience
    self.url = url
    self.part = part
    let bounds = patience.queue.map { longest in
      WaitingRule.Bounds(longestWait: longest, shortWait: longest / 4, calm: longest * 3)
    }
    state = Mutex(State(queue: PostgreSQLQueue(bounds: bounds, backlog: backlog)))
  }

  deinit {
    // Nobody ended it. It may be the last thread itself that lets go of the pool.
    state.withLock(\.gone)?.detach()
  }

  // MARK: Operations

  /// Takes an operation, or says why not.
  func push(_ operation: any QueuedOperation) -> StorageError.Fault? {
    state.withLock { state in
      if state.isClosed { return .closed }
      if state.connected == 0 { return .unavailable }
      let isAdmitted = operation.isUrgent || state.queue.admits(at: .now)
      if isAdmitted || !state.queue.appendOfFew(operation) {
        guard isAdmitted || operation.isOwed else { return .overloaded }
        state.queue.append(operation)
      }
      Self.call(&state)
      return nil
    }
  }

  /// Wakes a thread when there is work that nobody comes for, or will come for when its time has come. One at a time: what
  /// else there is then it may take along, and it calls the next one.
  private static func call(_ state: inout State) {
    let now = ContinuousClock.now
    let isReady = state.queue.isReady(at: now) || state.unknown.isReady(among: state.connected)
    let isWatched = state.watcher != nil || state.queue.held(at: now) == nil
    guard state.called == nil, !state.idle.isEmpty, isReady || !isWatched, let thread = state.idle.popLast() else {
      return
    }
    state.called = thread
    state.wakes[thread].signal()
  }

  /// Takes operations back of which nothing was done.
  func giveBack(_ operations: [any QueuedOperation], as why: OperationReturn) {
    if operations.isEmpty { return }
    for operation in operations { operation.goBack(why) }
    let isTaken = state.withLock { state in
      if why == .undone, operations.count > 1 { state.queue.pauseGroups() }
      if state.connected == 0 { return false }
      state.queue.prepend(operations)
      Self.call(&state)
      return true
    }
    if !isTaken {
      for operation in operations { operation.refuse(Self.nothingStands) }
    }
  }

  private enum Next {
    /// Another server has taken the place of the connection's.
    case leave
    case look(UnknownCommits.Entry)
    case run(PostgreSQLQueue.Work)
    /// For so long, if nobody calls; nil for as long as nobody does.
    case sleep(Duration?)
    case end
  }

  /// What the thread has to do. `sleep`: it is among the idle now.
  ///
  /// When fewer wait than were done together last, it lets other threads run once more: on a busy core those who are about
  /// to ask get no chance otherwise, because the first of them wakes this thread.
  private func next(_ thread: Int, _ history: ServerHistory?) -> Next {
    // Returns at once when nobody else wants this core.
    if state.withLock({ $0.queue.isGathering }) { sched_yield() }
    return state.withLock { state in
      Self.come(thread, &state)
      // One for all that is asked of the queue: what is not ready is held then, and is watched.
      let now = ContinuousClock.now
      if !state.servers.isCurrent(history) { return .leave }
      // A sign of life cannot wait for a look, and nothing for one look after the other.
      let isOthersTurn = state.queue.hasUrgent || (state.unknown.hasFailed && state.queue.isReady(at: now))
      if !isOthersTurn, let entry = state.unknown.next(among: state.connected) {
        Self.call(&state)
        return .look(entry)
      }
      if let work = state.queue.next(at: now) {
        state.unknown.hasFailed = false
        Self.call(&state)
        return .run(work)
      }
      if state.isClosed { return .end }
      state.idle.append(thread)
      guard state.watcher == nil, let time = state.queue.held(at: now) else { return .sleep(nil) }
      state.watcher = thread
      return .sleep(time - now)
    }
  }

  /// Leaves the idle. True when it was called.
  @discardableResult
  private static func come(_ thread: Int, _ state: inout State) -> Bool {
    state.idle.removeAll { $0 == thread }
    if state.watcher == thread { state.watcher = nil }
    guard state.called == thread else { return false }
    state.called = nil
    return true
  }

  // MARK: Threads

  /// Starts a thread that connects at once, does `preparation` with its connection, and then serves. `report` hears how
  /// that went; after a failure the thread ends.
  func start(
    _ preparation: @escaping @Sendable (PostgreSQLConnection) async throws(StorageError) -> Void,
    report: @escaping @Sendable (StorageError?) -> Void
  ) {
    guard let wake = PostgreSQLWake() else {
      report(StorageError(.unavailable, operation: "connect", detail: "the system has no descriptor left"))
      return
    }
    let thread = state.withLock { state in
      state.wakes.append(wake)
      state.running += 1
      return state.wakes.count - 1
    }
    let isStarted = WorkerThread.start(isJoined: true) { [self] in
      // Runs here and now and never suspends: what an operation awaits returns at once, or the operation is run by this
      // thread where it does not (PostgreSQLRounds). Only so does the connection stay on its thread.
      let end = TaskEnd()
      Task.immediate {
        await live(thread, wake, preparation, report)
        end.hasCome.withLock { $0 = true }
      }
      precondition(end.hasCome.withLock { $0 }, "an operation awaited something besides its transaction")
      ended(.current)
    }
    if !isStarted {
      ended(nil)
      report(StorageError(.unavailable, operation: "connect", detail: "the system has no thread left"))
    }
  }

  private final class TaskEnd: Sendable {
    let hasCome = Mutex(false)
  }

  private func live(
    _ thread: Int, _ wake: PostgreSQLWake,
    _ preparation: @Sendable (PostgreSQLConnection) async throws(StorageError) -> Void,
    _ report: @Sendable (StorageError?) -> Void
  ) async {
    do throws(StorageError) {
      let connection = try connect(isCounted: false)
      try await preparation(connection)
      state.withLock { $0.hasConnected() }
      report(nil)
      await serve(connection, thread, wake)
    } catch {
      report(error)
      return
    }
    while waitForAttempt(wake) {
      do throws(StorageError) {
        let connection = try connect(isCounted: true)
        await serve(connection, thread, wake)
      } catch {
        state.withLock { $0.failure = error }
      }
    }
  }

  /// - Parameter isCounted: from then on operations are taken for it.
  private func connect(isCounted: Bool) throws(StorageError) -> PostgreSQLConnection {
    let begin = ContinuousClock.now
    let (known, host) = state.withLock { ($0.servers.latest, $0.servers.host) }
    let found = try PostgreSQLConnection.toLeader(url, after: known, host: host) { url throws(StorageError) in
      try PostgreSQLConnection(
        url, part: part, cells: cells, patience: patience, hasLane: hasLanes, isFoundByKeys: isFoundByKeys)
    }
    let isTaken = state.withLock { state in
      let isTaken = state.servers.take(found.connection.history, host: found.host, isSure: found.isSure, since: begin)
      if isTaken, isCounted { state.hasConnected() }
      return isTaken
    }
    guard isTaken else {
      throw StorageError(
        .unavailable, operation: "connect to \(url)",
        detail: "another server has taken the place of the one that was found")
    }
    return found.connection
  }

  /// Returns when the connection is lost, or the pool closed and nothing waits.
  private func serve(_ connection: PostgreSQLConnection, _ thread: Int, _ wake: PostgreSQLWake) async {
    var untouched: [any QueuedOperation] = []
    var asked = ContinuousClock.now
    while !connection.isBroken {
      switch next(thread, connection.history) {
      case .leave:
        connection.giveUp()
        return lost(thread, wasLeft: true)
      case .look(let entry):
        look(entry, on: connection)
        asked = .now
      case .run(let work):
        untouched = await run(work, on: connection)
        asked = .now
      case .end:
        state.withLock { $0.connected -= 1 }
        return
      case .sleep(let time):
        let event = wake.wait(orReadable: connection.socket, for: time ?? Limits.heartbeat)
        // Who watches for work comes sooner.
        if event == .woken || event == .timeout && asked.duration(to: .now) < Limits.heartbeat { continue }
        // A server that goes says so, or closes; either can be read.
        let isCalled = state.withLock { Self.come(thread, &$0) }
        if connection.takeIdleInput(), event == .timeout, !isCalled {
          connection.checkLife()
          asked = .now
        }
      }
    }
    lost(thread)
    giveBack(untouched, as: .untouched)
  }

  /// Answers the operations of which nothing was done because the connection was lost.
  private func run(
    _ work: PostgreSQLQueue.Work, on connection: PostgreSQLConnection
  ) async -> [any QueuedOperation] {
    // One that ended while nothing was asked is found here, and not by what is asked next.
    let isAlive = connection.takeIdleInput()
    let members = work.operations.filter { $0.begin() }
    // Those that nothing was done of come again.
    var done = 0
    defer { state.withLock { $0.queue.finished(work, done: done) } }
    if members.isEmpty { return [] }
    guard isAlive else { return members }
    let group = PostgreSQLGroup(kind: work.kind, members: members, duration: patience.group)
    connection.hasNoRoom = false
    defer { if connection.hasNoRoom { state.withLock { $0.room.ran(out: .now) } } }
    switch await group.run(on: connection) {
    case .done: done = members.count
    case .untouched: return members
    case .left(let operations):
      done = members.count - operations.count
      giveBack(operations, as: .left)
    case .undone: giveBack(members, as: .undone)
    case .unknown(let entry, let left):
      done = members.count - left.count
      let isTaken = state.withLock { state in
        defer { Self.call(&state) }
        return state.unknown.append(entry)
      }
      if !isTaken { Self.answer([entry]) }
      giveBack(left, as: .left)
    }
    return []
  }

  /// - Parameter wasLeft: it stood, and its server leads no more: who does is known.
  private func lost(_ thread: Int, wasLeft: Bool = false) {
    let refused = state.withLock { state in
      Self.come(thread, &state)
      state.connected -= 1
      if !wasLeft { state.servers.wasLost(at: .now) }
      let jitter = Duration.milliseconds(Int.random(in: Limits.reconnectJitter))
      state.nextAttempt = max(state.nextAttempt, .now + jitter)
      guard state.connected == 0 else {
        Self.call(&state)
        return [any QueuedOperation]()
      }
      return state.queue.removeAll()
    }
    for operation in refused { operation.refuse(Self.nothingStands) }
  }

  private static let nothingStands = StorageError(
    .unavailable, operation: "", detail: "no connection to the database stands")

  /// Waits until this thread may try to connect. False: the pool was closed.
  private func waitForAttempt(_ wake: PostgreSQLWake) -> Bool {
    while true {
      answerLate()
      let pause: Duration? = state.withLock { state in
        if state.isClosed { return nil }
        let now = ContinuousClock.now
        if now < state.nextAttempt {
          return min(state.nextAttempt - now, state.unknown.isEmpty ? Limits.heartbeat : Limits.looksForLate)
        }
        state.nextAttempt = now + Limits.reconnectPause + .milliseconds(Int.random(in: Limits.reconnectJitter))
        return .zero
      }
      guard let pause else { return false }
      if pause == .zero { return true }
      _ = wake.wait(orReadable: nil, for: pause)
    }
  }

  /// - Parameter thread: nil when none was started.
  private func ended(_ thread: WorkerThread?) {
    let (before, enders, unknown) = state.withLock { state in
      state.running -= 1
      let before = thread == nil ? nil : state.gone
      if let thread { state.gone = thread }
      guard state.running == 0 else {
        return (before, [CheckedContinuation<Void, Never>](), [UnknownCommits.Entry]())
      }
      defer { state.enders.removeAll() }
      return (before, state.enders, state.unknown.takeAll())
    }
    Self.answer(unknown)
    // It has nothing left to do, so that this takes no time.
    before?.join()
    for ender in enders { ender.resume() }
  }

  // MARK: The whole

  var connected: Int { state.withLock { $0.connected } }

  var waiting: Int { state.withLock { $0.queue.count } }

  /// Why nothing can be done; nil while a connection stands.
  var obstacle: StorageError? {
    state.withLock { state in
      state.connected > 0
        ? nil
        : state.failure
          ?? StorageError(.unavailable, operation: "connect to \(url)", detail: "the connections to it ended")
    }
  }

  /// What the database has room for, as far as is known; see ``DiskRoom``.
  func withRoom<Result>(_ body: (inout DiskRoom) -> Result) -> Result { state.withLock { body(&$0.room) } }

  /// Takes no more work; what waits is finished, and the threads end.
  func close() {
    state.withLock { state in
      state.isClosed = true
      for wake in state.wakes { wake.signal() }
    }
  }

  func end() async {
    close()
    await withCheckedContinuation { ender in
      let isOver = state.withLock { state in
        if state.running > 0 { state.enders.append(ender) }
        return state.running == 0
      }
      if isOver { ender.resume() }
    }
    // A process that ended while the thread frees what libpq's libraries keep for it would free that a second time.
    joining.withLock { _ in
      let last = state.withLock { state in
        defer { state.gone = nil }
        return state.gone
      }
      last?.join()
    }
  }
}
