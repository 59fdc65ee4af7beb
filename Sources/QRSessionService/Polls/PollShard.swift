import HeapModule
import LatchkeyModel
import Storage

/// One part of the poll table: entries found through an open-addressed index, timed by a wheel.
///
/// Plain data under its owner's lock. Nothing here allocates for a poll, and nothing waits. Among a million sessions a
/// poll costs what it misses in the caches, so it touches two lines of memory: one of the index, one entry.
struct PollShard {
  private var entries: PollEntries
  /// What polls do not need of the entries, by the same numbers.
  private var links: [PollLinks] = []
  private var firstFree = PollEntry.none
  private(set) var count = 0

  private var index = PollIndex()

  /// First entry of each second's list.
  private var wheel = [UInt32](repeating: PollEntry.none, count: Limits.wheelSeconds)
  /// The second that was swept last.
  private var cursor: Int64

  private var masks: [UInt32: DisplayText] = [:]
  /// Who waits, in lists that begin at the entries, the longest waiting first; and a list of the free cells.
  private var waiters: [WaiterCell] = []
  private var firstFreeWaiter = PollEntry.none
  private(set) var waiterCount = 0
  private var timeouts = Heap<PollTimeout>()
  /// Whether a time is known at which somebody may have waited long enough.
  var hasTimeouts: Bool { !timeouts.isEmpty }
  private var isStopping = false

  init(now: Timestamp, memory: PollMemory) {
    cursor = now.secondsSinceEpoch
    entries = PollEntries(memory: memory)
  }

  private struct WaiterCell {
    var waiter: PollWaiter?
    var next: UInt32
  }

  // MARK: - Sessions

  /// Adds a session, unless it is there.
  mutating func insert(_ session: QRSession) {
    guard find(session.keys.pollSecret) == nil else { return }
    let slot: UInt32
    if firstFree != PollEntry.none {
      slot = firstFree
      firstFree = links[Int(slot)].next
      entries[slot] = PollEntry(session)
      links[Int(slot)] = PollLinks(session.id)
    } else {
      slot = entries.append(PollEntry(session))
      links.append(PollLinks(session.id))
    }
    setMask(session.claim?.mask, of: slot)
    count += 1
    index.insert(slot, session.keys.pollSecret, count: count) { entries[$0].secret }
    link(slot, due: session.expires)
  }

  /// Takes over a later version of a session and returns who waited for it.
  mutating func publish(_ change: QRChange) -> [PollWaiter] {
    guard let slot = find(change.pollSecret), change.version > entries[slot].longVersion else { return [] }
    entries[slot].longVersion = change.version
    entries[slot].state = change.state
    entries[slot].clock.sessionChanged()
    let due = entries[slot].expires
    entries[slot].setTime(issued: change.issued, expires: change.expires)
    if due != change.expires {
      unlink(slot, due: nil)
      link(slot, due: change.expires)
    }
    setMask(change.mask, of: slot)
    return takeWaiters(of: slot)
  }

  func fetchIndex(_ secret: Digest256) {
    index.fetch(secret)
  }

  func fetchEntry(_ secret: Digest256) {
    if let slot = index.candidate(secret) { entries.fetch(slot) }
  }

  func view(_ secret: Digest256, at now: Timestamp) -> PollView? {
    find(secret).map { view($0, at: now) }
  }

  /// Decides a poll. `base` is the interval for its kind, `waits` whether it would wait for a change.
  mutating func poll(
    _ secret: Digest256,
    lastVersion: Int64,
    waits: Bool,
    base: Duration,
    at now: Timestamp
  ) -> PollDecision {
    guard let slot = find(secret) else { return .unknown }
    if !waits, entries[slot].isUntouched(at: now) { return pollUntouched(slot, base: base, at: now) }
    let view = view(slot, at: now)
    let delivered = entries[slot].longDelivered
    entries[slot].longDelivered = max(delivered, view.version)
    guard view.state.isUndecided else {
      let hasNews = !waits || view.state.isFinal || view.version > lastVersion
      return hasNews ? .answer(view, interval: base) : .wait(view, interval: base)
    }
    // A long poll that only fetches what changed is not the polling that slow_down is about: its next one waits.
    if waits, view.version > max(delivered, lastVersion) {
      return .answer(view, interval: entries[slot].clock.interval(base: base))
    }
    switch entries[slot].clock.poll(at: now, base: base) {
    case .slowDown(let retryAfter, let interval):
      return .slowDown(retryAfter: retryAfter, interval: interval)
    case .accept(let interval):
      let hasNews = view.version > lastVersion
      return waits && !hasNews ? .wait(view, interval: interval) : .answer(view, interval: interval)
    }
  }

  /// What nearly all polls are.
  private mutating func pollUntouched(_ slot: UInt32, base: Duration, at now: Timestamp) -> PollDecision {
    entries[slot].longDelivered = PollEntry.untouchedVersion
    switch entries[slot].clock.poll(at: now, base: base) {
    case .slowDown(let retryAfter, let interval): return .slowDown(retryAfter: retryAfter, interval: interval)
    case .accept(let interval): return .untouched(interval: interval)
    }
  }

  // MARK: - Waiting

  enum Registration {
    /// The waiter is in; the one it pushed out, if any, must be resumed.
    case waiting(displaced: PollWaiter?)
    /// There is something to answer already.
    case notNeeded
    case stopping
  }

  /// Registers a waiter unless there is news. Under one lock with `publish`: no change falls between the two. Without
  /// `due` it waits for as long as the session lasts.
  mutating func wait(
    _ secret: Digest256,
    after version: Int64,
    until due: ContinuousClock.Instant?,
    at now: Timestamp,
    waiter: PollWaiter
  ) -> Registration {
    guard !isStopping else { return .stopping }
    guard let slot = find(secret) else { return .notNeeded }
    let view = view(slot, at: now)
    guard view.version <= version, !view.state.isFinal else { return .notNeeded }
    let displaced = append(waiter, to: slot)
    if let due { timeouts.insert(PollTimeout(due: due, slot: slot, number: waiter.number)) }
    return .waiting(displaced: displaced)
  }

  /// Removes one waiter, if it still waits.
  mutating func removeWaiter(_ number: UInt64, of secret: Digest256) -> PollWaiter? {
    find(secret).flatMap { removeWaiter(number, at: $0) }
  }

  /// Removes the waiters whose time is over.
  mutating func takeTimedOut(at instant: ContinuousClock.Instant) -> [PollWaiter] {
    var taken: [PollWaiter] = []
    while let first = timeouts.min, first.due <= instant {
      timeouts.removeMin()
      if let waiter = removeWaiter(first.number, at: first.slot) { taken.append(waiter) }
    }
    return taken
  }

  /// Takes every waiter and lets nobody wait from here on.
  mutating func stopWaiting() -> [PollWaiter] {
    isStopping = true
    defer {
      for slot in links.indices { links[slot].firstWaiter = PollEntry.none }
      waiters = []
      firstFreeWaiter = PollEntry.none
      waiterCount = 0
    }
    return waiters.compactMap(\.waiter)
  }

  /// Adds a waiter to the end of the list. Returns the first one when there are too many.
  private mutating func append(_ waiter: PollWaiter, to slot: UInt32) -> PollWaiter? {
    let cell: UInt32
    if firstFreeWaiter != PollEntry.none {
      cell = firstFreeWaiter
      firstFreeWaiter = waiters[Int(cell)].next
      waiters[Int(cell)] = WaiterCell(waiter: waiter, next: PollEntry.none)
    } else {
      cell = UInt32(waiters.count)
      waiters.append(WaiterCell(waiter: waiter, next: PollEntry.none))
    }
    waiterCount += 1
    var length = 1
    var last = links[Int(slot)].firstWaiter
    guard last != PollEntry.none else {
      links[Int(slot)].firstWaiter = cell
      return nil
    }
    while waiters[Int(last)].next != PollEntry.none {
      last = waiters[Int(last)].next
      length += 1
    }
    waiters[Int(last)].next = cell
    return length >= Limits.waitersPerSession ? take(links[Int(slot)].firstWaiter, after: nil, of: slot) : nil
  }

  /// Takes one cell out of the list, the one behind `previous` or the first.
  private mutating func take(_ cell: UInt32, after previous: UInt32?, of slot: UInt32) -> PollWaiter? {
    if let previous {
      waiters[Int(previous)].next = waiters[Int(cell)].next
    } else {
      links[Int(slot)].firstWaiter = waiters[Int(cell)].next
    }
    defer {
      waiters[Int(cell)] = WaiterCell(waiter: nil, next: firstFreeWaiter)
      firstFreeWaiter = cell
      waiterCount -= 1
    }
    return waiters[Int(cell)].waiter
  }

  private mutating func removeWaiter(_ number: UInt64, at slot: UInt32) -> PollWaiter? {
    var previous: UInt32?
    var cell = links[Int(slot)].firstWaiter
    while cell != PollEntry.none {
      if waiters[Int(cell)].waiter?.number == number { return take(cell, after: previous, of: slot) }
      previous = cell
      cell = waiters[Int(cell)].next
    }
    return nil
  }

  private mutating func takeWaiters(of slot: UInt32) -> [PollWaiter] {
    var taken: [PollWaiter] = []
    while links[Int(slot)].firstWaiter != PollEntry.none {
      if let waiter = take(links[Int(slot)].firstWaiter, after: nil, of: slot) { taken.append(waiter) }
    }
    return taken
  }

  // MARK: - Time

  struct Sweep {
    var waiters: [PollWaiter] = []
    /// Sessions whose time ended undecided or unredeemed.
    var expired: [QRSessionID] = []
    /// How many entries were touched.
    var handled = 0
    /// Whether the shard has caught up with the time.
    var isDone = true
  }

  /// Wakes and forgets what is due, at most `Limits.expiriesPerPass` of it.
  mutating func sweep(at now: Timestamp) -> Sweep {
    var sweep = Sweep()
    let second = now.secondsSinceEpoch
    // A clock set back: what is due in between is only looked at again, and found not to be due.
    if second < cursor {
      cursor = second
      endBeforeTime(at: now)
    }
    // A clock set far ahead: one turn passes every slot.
    cursor = max(cursor, second - Int64(Limits.wheelSeconds))
    var budget = Limits.expiriesPerPass
    while cursor < second {
      let place = position(second: cursor)
      var slot = wheel[place]
      while slot != PollEntry.none {
        let next = links[Int(slot)].next
        if entries[slot].expires <= now {
          if budget == 0 {
            sweep.isDone = false
            return sweep
          }
          budget -= 1
          sweep.handled += 1
          expire(slot, in: place, at: now, &sweep)
        }
        slot = next
      }
      cursor += 1
    }
    return sweep
  }

  /// The clock was set back: makes what that ends due now. It would wait for the time that the clock showed before, its
  /// watches with it. Looks at every entry, which takes a millisecond, but clocks are set back once in a long while.
  private mutating func endBeforeTime(at now: Timestamp) {
    for place in wheel.indices {
      var slot = wheel[place]
      while slot != PollEntry.none {
        let next = links[Int(slot)].next
        if entries[slot].isBeforeTime(now) {
          entries[slot].endTime(at: now)
          unlink(slot, due: place)
          link(slot, due: now)
        }
        slot = next
      }
    }
  }

  private mutating func expire(_ slot: UInt32, in place: Int, at now: Timestamp, _ sweep: inout Sweep) {
    let entry = entries[slot]
    if now - entry.expires >= Limits.pollRetention {
      unlink(slot, due: place)
      sweep.waiters += takeWaiters(of: slot)
      remove(slot)
    } else {
      if !entry.state.isFinal, !entry.isToldOver { sweep.expired.append(links[Int(slot)].id) }
      entries[slot].isToldOver = true
      sweep.waiters += takeWaiters(of: slot)
      unlink(slot, due: place)
      link(slot, due: entry.expires + Limits.pollRetention)
    }
  }

  // MARK: - Entries and index

  private func view(_ slot: UInt32, at now: Timestamp) -> PollView {
    let mask = entries[slot].hasMask ? masks[slot] : nil
    return entries[slot].view(at: now, id: links[Int(slot)].id, mask: mask)
  }

  private mutating func setMask(_ mask: DisplayText?, of slot: UInt32) {
    guard mask != nil || entries[slot].hasMask else { return }
    masks[slot] = mask
    entries[slot].hasMask = mask != nil
  }

  private func find(_ secret: Digest256) -> UInt32? {
    index.find(secret) { entries[$0].secret }
  }

  private mutating func remove(_ slot: UInt32) {
    setMask(nil, of: slot)
    index.remove(slot, entries[slot].secret) { entries[$0].secret }
    links[Int(slot)].next = firstFree
    firstFree = slot
    count -= 1
  }

  // MARK: - Wheel

  private func position(second: Int64) -> Int {
    Int(truncatingIfNeeded: second) & (Limits.wheelSeconds - 1)
  }

  /// Puts an entry into the list of the second after `due`, or of the next one to be swept.
  private mutating func link(_ slot: UInt32, due: Timestamp) {
    let place = position(second: max(due.secondsSinceEpoch, cursor))
    let first = wheel[place]
    links[Int(slot)].previous = PollEntry.none
    links[Int(slot)].next = first
    if first != PollEntry.none { links[Int(first)].previous = slot }
    wheel[place] = slot
  }

  /// Takes an entry out of its list. `place` is the list it is in; nil looks for it by its first entry.
  private mutating func unlink(_ slot: UInt32, due place: Int?) {
    let next = links[Int(slot)].next
    let previous = links[Int(slot)].previous
    if next != PollEntry.none { links[Int(next)].previous = previous }
    if previous != PollEntry.none {
      links[Int(previous)].next = next
    } else if let place = place ?? wheel.firstIndex(of: slot) {
      wheel[place] = next
    }
  }
}
