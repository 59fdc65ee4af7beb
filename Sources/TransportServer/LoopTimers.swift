internal import NIOCore

/// The timers of an event loop's connections, of which tens of thousands may be set, and come due at once.
///
/// The event loop's own ones cost a walk past all the others to cancel, and those that are due all run before the loop looks
/// at its sockets again. Here what is due runs while there is time, and the rest with the chores.
///
/// To set or cancel one costs at most log n moves of references.
final class LoopTimers: @unchecked Sendable {
  // Unchecked: only touched on its event loop.
  private unowned let turns: LoopTurns
  /// As a heap: none is due before the one above it.
  private var heap: [LoopTimer] = []
  /// What wakes this, and when. It may come too early.
  private var alarm: (deadline: NIODeadline, task: Scheduled<Void>)?
  /// Timers are running, or will go on to once the loop has looked at its sockets.
  private var isFiring = false

  init(_ turns: LoopTurns) {
    self.turns = turns
  }

  /// Those that are set.
  var count: Int { heap.count }

  /// Has `action` called once, at `deadline` or as soon afterwards as there is time.
  func schedule(at deadline: NIODeadline, _ action: @escaping () -> Void) -> LoopTimer {
    let timer = LoopTimer(self, deadline, action)
    timer.place = heap.count
    heap.append(timer)
    rise(timer)
    wake(at: heap[0].deadline)
    return timer
  }

  fileprivate func remove(_ timer: LoopTimer) {
    guard let place = timer.place else { return }
    timer.place = nil
    let last = heap.removeLast()
    if last !== timer {
      put(last, at: place)
      rise(last)
      sink(last)
    } else if heap.isEmpty {
      // The loop would keep the turns until then, and they the loop.
      alarm?.task.cancel()
      alarm = nil
    }
  }

  private func wake(at deadline: NIODeadline) {
    guard !isFiring else { return }
    if let alarm {
      guard deadline < alarm.deadline else { return }
      alarm.task.cancel()
    }
    // Keeps the turns, which keep this.
    let task = turns.eventLoop.assumeIsolated().scheduleTask(deadline: deadline) { [turns] in
      turns.timers.alarm = nil
      turns.timers.fire()
    }
    alarm = (deadline, task)
  }

  private func fire() {
    isFiring = true
    turns.anyway {
      let start = turns.eventLoop.now
      while let first = heap.first, first.deadline <= start, turns.eventLoop.now - start < Limits.round {
        remove(first)
        first.run()
      }
    }
    guard let first = heap.first else {
      isFiring = false
      return
    }
    if first.deadline <= turns.eventLoop.now { return turns.later { [turns] in turns.timers.fire() } }
    isFiring = false
    wake(at: first.deadline)
  }

  // MARK: The heap

  private func put(_ timer: LoopTimer, at place: Int) {
    heap[place] = timer
    timer.place = place
  }

  private func rise(_ timer: LoopTimer) {
    guard var place = timer.place else { return }
    while place > 0, timer.deadline < heap[(place - 1) / 2].deadline {
      put(heap[(place - 1) / 2], at: place)
      place = (place - 1) / 2
    }
    put(timer, at: place)
  }

  private func sink(_ timer: LoopTimer) {
    guard var place = timer.place else { return }
    while true {
      var child = 2 * place + 1
      guard child < heap.count else { break }
      if child + 1 < heap.count, heap[child + 1].deadline < heap[child].deadline { child += 1 }
      guard heap[child].deadline < timer.deadline else { break }
      put(heap[child], at: place)
      place = child
    }
    put(timer, at: place)
  }
}

/// One timer. Only touched on its event loop.
final class LoopTimer {
  fileprivate let deadline: NIODeadline
  /// In the heap; nil when it is not there.
  fileprivate var place: Int?
  private var action: (() -> Void)?
  private let timers: LoopTimers

  fileprivate init(_ timers: LoopTimers, _ deadline: NIODeadline, _ action: @escaping () -> Void) {
    self.timers = timers
    self.deadline = deadline
    self.action = action
  }

  /// It will not run, unless it has.
  func cancel() {
    action = nil
    timers.remove(self)
  }

  fileprivate func run() {
    let action = action
    self.action = nil
    action?()
  }
}
