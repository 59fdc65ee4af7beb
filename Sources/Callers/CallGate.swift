internal import Synchronization

/// The door of one method: shut while what its calls wait for has more to do than it can do in time, so that a call that
/// would be refused is refused by its header fields alone.
///
/// The transport has one for each method and sets it around the method's handlers. Nobody says beforehand which method
/// needs what: a queue that refuses a call's work because too much waits shuts the call's door, which opens by itself as
/// soon as the queue takes more. A call that is refused for another reason, such as a deadline of its own that is too
/// near, shuts nothing: otherwise a single caller could have everybody refused.
package final class CallGate: Sendable {
  private let backlog = Mutex<Backlog?>(nil)

  package init() {}

  /// Whether a call had better not be begun. Some nanoseconds.
  package var isShut: Bool { backlog.withLock { $0?.isLong ?? false } }

  /// The same of a call of `source`: whoever has far less of what waits than another is taken all the same.
  package func isShut(to source: NetworkAddress?) -> Bool {
    guard let backlog = backlog.withLock({ $0 }), backlog.isLong else { return false }
    return !backlog.takes(source)
  }

  /// What the method's calls were last seen to wait for.
  package var queue: Backlog? { backlog.withLock { $0 } }

  /// Too much waits for what the method's calls need.
  package func shut(while backlog: Backlog) {
    self.backlog.withLock { $0 = backlog }
  }
}

/// Whether more waits for something, such as a database's writer, than can be done in time, and who has how much of it.
/// Whoever hands it out says so.
package final class Backlog: Sendable {
  private let long = Atomic<Bool>(false)
  private let share = Mutex(QueueShare())

  package init() {}

  package var isLong: Bool {
    get { long.load(ordering: .relaxed) }
    set { long.store(newValue, ordering: .relaxed) }
  }

  package func entered(_ source: NetworkAddress?) { share.withLock { $0.entered(source) } }

  package func left(_ source: NetworkAddress?) { share.withLock { $0.left(source) } }

  /// Whether one more of a source is taken although it is long.
  package func takes(_ source: NetworkAddress?) -> Bool { share.withLock { $0.takesOfFew(source) } }

  package func enterOfFew(_ source: NetworkAddress?) -> Bool { share.withLock { $0.enterOfFew(source) } }

  package func leftOfFew(_ source: NetworkAddress?) { share.withLock { $0.leftOfFew(source) } }
}
