import DequeModule
import LatchkeyModel
import Storage
import Synchronization

/// A database's connections, a thread each, and what waits for them.
///
/// An operation goes to the connection that was used last, so that few are busy when little is to do. While no connection
/// stands, operations are refused at once; those lost are made anew one after the other, at most one attempt a second
/// whatever the reason, and each only after the old one is closed.
final class PostgreSQLPool: Sendable {
  private struct Slot {
    let wake: PostgreSQLWake
    /// Handed over while the thread slept.
    var operation: (any QueuedOperation)?
  }

  private struct State {
    var slots: [Slot] = []
    /// Numbers of the threads that sleep beside a connection; the last one slept least.
    var idle: [Int] = []
    var waiting: Deque<any QueuedOperation> = []
    var connected = 0
    var running = 0
    var isClosed = false
    /// Why there is no connection.
    var failure: StorageError?
    var nextAttempt = ContinuousClock.now
    var enders: [CheckedContinuation<Void, Never>] = []
  }

  let url: PostgreSQLURL
  let part: String
  let cells: Cells
  private let patience: PostgreSQLPatience
  private let state = Mutex(State())

  init(_ url: PostgreSQLURL, part: String, cells: Cells, patience: PostgreSQLPatience) {
    self.cells = cells
    self.patience = patience
    self.url = url
    self.part = part
  }

  // MARK: Operations

  /// Takes an operation, or says why not.
  func push(_ operation: any QueuedOperation) -> StorageError.Fault? {
    state.withLock { state in
      if state.isClosed { return .closed }
      if state.connected == 0 { return .unavailable }
      if handOver(operation, &state) { return nil }
      if operation.isUrgent {
        state.waiting.prepend(operation)
        return nil
      }
      if state.waiting.count >= Limits.waiting { return .overloaded }
      let first = state.waiting.first { !$0.isUrgent }
      if let longest = patience.queue, let first, .now - first.asked > longest { return .overloaded }
      state.waiting.append(operation)
      return nil
    }
  }

  private func handOver(_ operation: any QueuedOperation, _ state: inout State) -> Bool {
    guard let thread = state.idle.popLast() else { return false }
    state.slots[thread].operation = operation
    state.slots[thread].wake.signal()
    return true
  }

  /// Takes an operation back that a lost connection did not begin.
  private func giveBack(_ operation: any QueuedOperation) {
    let isTaken = state.withLock { state in
      if state.connected == 0 { return false }
      if !handOver(operation, &state) { state.waiting.prepend(operation) }
      return true
    }
    if !isTaken { operation.refuse(Self.nothingStands) }
  }

  private enum Next {
    case run(any QueuedOperation)
    case sleep
    case end
  }

  /// What the thread has to do. `sleep`: it is among the idle now.
  private func next(_ thread: Int) -> Next {
    state.withLock { state in
      if let operation = takeHandedOver(thread, &state) { return .run(operation) }
      if let first = state.waiting.popFirst() { return .run(first) }
      if state.isClosed { return .end }
      state.idle.append(thread)
      return .sleep
    }
  }

  /// Leaves the idle; answers what was handed over in the meantime.
  private func wakeUp(_ thread: Int) -> (any QueuedOperation)? {
    state.withLock { takeHandedOver(thread, &$0) }
  }

  private func takeHandedOver(_ thread: Int, _ state: inout State) -> (any QueuedOperation)? {
    state.idle.removeAll { $0 == thread }
    defer { state.slots[thread].operation = nil }
    return state.slots[thread].operation
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
      state.slots.append(Slot(wake: wake))
      state.running += 1
      return state.slots.count - 1
    }
    let isStarted = WorkerThread.start { [self] in
      // Runs here and now and never suspends: what an operation awaits returns at once. Only so does the connection stay
      // on its thread.
      let end = TaskEnd()
      Task.immediate {
        await live(thread, wake, preparation, report)
        end.hasCome.withLock { $0 = true }
      }
      precondition(end.hasCome.withLock { $0 }, "an operation awaited something besides its transaction")
      ended()
    }
    if !isStarted {
      ended()
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
      let connection = try PostgreSQLConnection(url, part: part, cells: cells, patience: patience)
      try await preparation(connection)
      state.withLock { $0.connected += 1 }
      report(nil)
      await serve(connection, thread, wake)
    } catch {
      report(error)
      return
    }
    while waitForAttempt(wake) {
      do throws(StorageError) {
        let connection = try PostgreSQLConnection(url, part: part, cells: cells, patience: patience)
        state.withLock { $0.connected += 1 }
        await serve(connection, thread, wake)
      } catch {
        state.withLock { $0.failure = error }
      }
    }
  }

  /// Returns when the connection is lost, or the pool closed and nothing waits.
  private func serve(_ connection: PostgreSQLConnection, _ thread: Int, _ wake: PostgreSQLWake) async {
    var undone: (any QueuedOperation)?
    while !connection.isBroken {
      switch next(thread) {
      case .run(let operation): undone = await run(operation, on: connection)
      case .end:
        state.withLock { $0.connected -= 1 }
        return
      case .sleep:
        let event = wake.wait(orReadable: connection.socket, for: Limits.heartbeat)
        // A server that goes says so, or closes; either can be read.
        let isAlive = event == .woken || connection.takeIdleInput()
        if let operation = wakeUp(thread) {
          undone = await run(operation, on: connection)
        } else if isAlive && event == .timeout {
          connection.checkLife()
        }
      }
    }
    lost()
    if let undone { giveBack(undone) }
  }

  /// Answers the operation when the connection was lost before it began.
  private func run(
    _ operation: any QueuedOperation, on connection: PostgreSQLConnection
  ) async -> (any QueuedOperation)? {
    if connection.isBroken { return operation }
    return await operation.run(on: connection) ? nil : operation
  }

  private func lost() {
    let refused = state.withLock { state in
      state.connected -= 1
      let jitter = Duration.milliseconds(Int.random(in: Limits.reconnectJitter))
      state.nextAttempt = max(state.nextAttempt, .now + jitter)
      guard state.connected == 0 else { return [any QueuedOperation]() }
      defer { state.waiting.removeAll() }
      return Array(state.waiting)
    }
    for operation in refused { operation.refuse(Self.nothingStands) }
  }

  private static let nothingStands = StorageError(
    .unavailable, operation: "", detail: "no connection to the database stands")

  /// Waits until this thread may try to connect. False: the pool was closed.
  private func waitForAttempt(_ wake: PostgreSQLWake) -> Bool {
    while true {
      let pause: Duration? = state.withLock { state in
        if state.isClosed { return nil }
        let now = ContinuousClock.now
        if now < state.nextAttempt { return state.nextAttempt - now }
        state.nextAttempt = now + Limits.reconnectPause + .milliseconds(Int.random(in: Limits.reconnectJitter))
        return .zero
      }
      guard let pause else { return false }
      if pause == .zero { return true }
      _ = wake.wait(orReadable: nil, for: pause)
    }
  }

  private func ended() {
    let enders = state.withLock { state in
      state.running -= 1
      guard state.running == 0 else { return [CheckedContinuation<Void, Never>]() }
      defer { state.enders.removeAll() }
      return state.enders
    }
    for ender in enders { ender.resume() }
  }

  // MARK: The whole

  var connected: Int { state.withLock { $0.connected } }

  var waiting: Int { state.withLock { $0.waiting.count } }

  /// Why nothing can be done; nil while a connection stands.
  var obstacle: StorageError? {
    state.withLock { state in
      state.connected > 0 ? nil : state.failure ?? StorageError(.unavailable, operation: "connect to \(url)")
    }
  }

  /// Takes no more work; what waits is finished, and the threads end.
  func close() {
    state.withLock { state in
      state.isClosed = true
      for slot in state.slots { slot.wake.signal() }
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
  }
}
