internal import NIOCore

/// The streams of one connection, and those that wait for the next call.
struct ConnectionStreams {
  private(set) var all: [ServerStream] = []
  private var free: [ServerStream] = []

  /// Those whose call is on, or whose handler has not returned.
  var working: Int { all.count - free.count }

  /// Those that are kept for calls to come.
  var spares: Int { free.count }

  /// One for a call that comes.
  mutating func take(orMake make: () -> ServerStream) -> ServerStream {
    if let kept = free.popLast() { return kept }
    let stream = make()
    all.append(stream)
    return stream
  }

  /// The call of one is over, and its handler has returned.
  mutating func giveBack(_ stream: ServerStream) { free.append(stream) }

  /// Forgets those that are kept for calls to come.
  mutating func freeSpares() {
    let spares = Set(free.map(ObjectIdentifier.init))
    all = all.filter { !spares.contains(ObjectIdentifier($0)) }
    free = []
  }

  /// When the first of their calls has to be over.
  var nextDeadline: NIODeadline? { all.compactMap(\.deadline).min() }
}
