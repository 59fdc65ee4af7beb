internal import GRPC
internal import Synchronization

/// What all connections of a server use together, and whether there is room for more.
///
/// A server that has no room says so at once, before it queues anything: a call that is refused costs a few
/// microseconds and its client knows when to come back; one that waits costs memory until nobody wants its answer.
package final class ServerBudget: Sendable {
  package struct Bounds: Sendable {
    /// Connections that are open. An idle one with TLS holds some 40 KiB, so this many stay below a gigabyte.
    package var connections = 20_000

    /// Calls whose handlers have not returned and are waiting for something. A hundred thousand screens in a watch, of
    /// some 2 KiB each, and some to spare; were all of them long polls of some 14 KiB, they would stay below two
    /// gigabytes.
    package var calls = 120_000

    /// Bytes of requests and answers that wait for a reader, a window or a socket, on one connection: a full receive
    /// window, and a full outbox for each of its streams, which an honest client may come to while it is slow.
    package var connectionBytes = 8 * 1024 * 1024

    /// The same for all connections together: a quarter of the smallest machine that one would run this on.
    package var bufferedBytes = 256 * 1024 * 1024

    package init() {}
  }

  let bounds: Bounds
  private let connections = Atomic<Int>(0)
  private let calls = Atomic<Int>(0)
  private let bufferedBytes = Atomic<Int>(0)
  private let refusedConnections = Atomic<Int>(0)
  private let refusedCalls = Atomic<Int>(0)

  init(_ bounds: Bounds) {
    precondition(bounds.connectionBytes <= bounds.bufferedBytes, "one connection alone would be over the budget of all")
    self.bounds = bounds
  }

  // MARK: Connections

  enum Admission {
    case admitted
    /// There is room, but so little that connections which do nothing should go.
    case admittedUnderPressure
    case refused
  }

  func admitConnection() -> Admission {
    let count = connections.add(1, ordering: .relaxed).newValue
    guard count <= bounds.connections else {
      connections.subtract(1, ordering: .relaxed)
      refusedConnections.add(1, ordering: .relaxed)
      return .refused
    }
    // A quarter is kept for those who come while the idle ones go.
    return count > bounds.connections / 4 * 3 ? .admittedUnderPressure : .admitted
  }

  func connectionClosed() {
    connections.subtract(1, ordering: .relaxed)
  }

  // MARK: Calls

  /// A handler waits for something. Those that return without waiting are never counted.
  func callWaits() {
    calls.add(1, ordering: .relaxed)
  }

  /// A handler that waited has returned.
  func callReturned() {
    calls.subtract(1, ordering: .relaxed)
  }

  // MARK: Bytes

  /// What a connection holds has changed by so much.
  func buffered(_ bytes: Int) {
    bufferedBytes.add(bytes, ordering: .relaxed)
  }

  // MARK: Shedding

  /// Whether a new call has to be refused.
  var isExhausted: Bool {
    calls.load(ordering: .relaxed) >= bounds.calls || bufferedBytes.load(ordering: .relaxed) >= bounds.bufferedBytes
  }

  /// What a call is told for which there is no room. The wait is spread, so that those who were refused together do
  /// not come back together.
  func refusal() -> RPCError {
    refusedCalls.add(1, ordering: .relaxed)
    return RPCError(
      .resourceExhausted,
      "the server has no room for this call now",
      reason: "OVERLOADED",
      retryAfter: .milliseconds(Int.random(in: 500...1500))
    )
  }

  /// For metrics and tests.
  package struct Usage: Sendable, Equatable {
    package var connections: Int
    package var calls: Int
    package var bufferedBytes: Int
    /// Since the server began.
    package var refusedConnections: Int
    package var refusedCalls: Int
  }

  var usage: Usage {
    Usage(
      connections: connections.load(ordering: .relaxed),
      calls: calls.load(ordering: .relaxed),
      bufferedBytes: bufferedBytes.load(ordering: .relaxed),
      refusedConnections: refusedConnections.load(ordering: .relaxed),
      refusedCalls: refusedCalls.load(ordering: .relaxed)
    )
  }
}
