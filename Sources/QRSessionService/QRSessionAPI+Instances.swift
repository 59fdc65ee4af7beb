import GRPC
import LatchkeyModel
import Logging
import Storage

/// Any instance serves any code: what each does for the codes of others.
extension QRSessionAPI {
  /// Shows what is stored to whoever waits here.
  func show(_ session: QRSession) {
    show(QRChange(session))
  }

  func show(_ change: QRChange) {
    // In this order: a code that arrives in between has the change noted, or is in the table by then.
    shared?.arrivals.note(change)
    table.publish(change)
  }

  /// Shows what this instance has just stored.
  func tell(_ session: QRSession) {
    let change = QRChange(session)
    show(change)
    shared?.wakes.tell(change)
  }

  /// Listens to what other instances change, until the task is cancelled.
  func listenToOthers() async {
    guard let shared else { return }
    await WakeListeners(shared.others) { [weak self] in self?.show($0) }.run()
  }

  /// Looks a code up that is not in the table, and takes its session in while it may be polled. Returns the session as it
  /// was read; nil for a code that is nobody's, or that is in the table by now.
  func meet(_ code: PollSecret, _ secret: Digest256, from peer: Peer) async throws(RPCError) -> QRSession? {
    // Whoever makes codes up is held to the rate of codes that nobody knows.
    guard mayMeet(code, from: peer) else { throw .unknownDeviceCode }
    guard let shared else {
      return try await stored { () throws(StorageError) in try await self.store.session(pollSecret: secret) }
    }
    while table.view(secret, at: clock.now()) == nil {
      guard await shared.arrivals.begin(secret) else { continue }
      return try await arrive(secret, shared)
    }
    return nil
  }

  private func arrive(_ secret: Digest256, _ shared: SharedSessions) async throws(RPCError) -> QRSession? {
    defer { if let change = shared.arrivals.end(secret) { table.publish(change) } }
    // An arrival that ended since the table was looked into has brought it.
    guard table.view(secret, at: clock.now()) == nil else { return nil }
    let found = try await stored { () throws(StorageError) in try await self.store.session(pollSecret: secret) }
    // In the table before the arrival ends: a change that comes now is shown by the one or the other.
    if let found, clock.now() - found.expires < Limits.pollRetention { table.insert(found) }
    return found
  }

  private func mayMeet(_ code: PollSecret, from peer: Peer) -> Bool {
    let now = clock.now()
    return shared?.codes.isCurrent(code, at: now) == true || admission.mayLookUpUnknown(from: peer, at: now)
  }

  /// Has the table know a code of this installation's; one that it cannot know stays unknown.
  func meetCurrent(_ code: PollSecret, _ secret: Digest256, from peer: Peer) async throws(RPCError) {
    guard let shared, table.view(secret, at: clock.now()) == nil, shared.codes.isCurrent(code, at: clock.now()) else {
      return
    }
    _ = try await meet(code, secret, from: peer)
  }

  /// Hears of changes that other instances made, until the task is cancelled.
  func hearChanges() async {
    guard let shared else { return }
    while (try? await Task.sleep(for: Limits.tailInterval)) != nil {
      do throws(StorageError) {
        try await hearChanges(shared)
      } catch {
        note(error)
      }
    }
  }

  func hearChanges(_ shared: SharedSessions) async throws(StorageError) {
    var isMore = true
    while isMore {
      let read = try await shared.tail.next()
      for change in read.changes { show(change) }
      isMore = read.mark.place != nil
    }
  }

  /// Forgets what was shared of codes that cannot be polled any more.
  func forgetShared() async throws(StorageError) {
    guard let shared else { return }
    while try await shared.store.forgetChanges(olderThan: Limits.changeRetention, limit: Limits.rowsPerBatch)
      == Limits.rowsPerBatch, !Task.isCancelled
    {}
    let ended = clock.now() - Limits.redemptionRetention
    while try await shared.store.forgetRedemptions(endedBefore: ended, limit: Limits.rowsPerBatch)
      == Limits.rowsPerBatch, !Task.isCancelled
    {}
  }

  /// Why codes of other instances are not served as they should be; nil while they are.
  package var obstacle: String? { shared?.tail.obstacle }
}
