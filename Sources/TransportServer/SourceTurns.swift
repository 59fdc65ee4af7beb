internal import NIOCore

/// What waits on an event loop, by its sources: they take turns of two pieces each, so that nobody waits behind all that
/// another has. What one source has goes in the order in which it came. Where each has as much as a connection has at a time,
/// its bytes and its tasks, the sources go in the order in which they came.
///
/// Each operation costs a look or two into a hash table.
struct SourceTurns<Element> {
  private struct Row {
    var waiting: CircularBuffer<(element: Element, since: TimeAmount)> = []
    /// When the source came, or had its last turn.
    var seen: TimeAmount
    /// Pieces of this turn.
    var taken = 0
  }

  /// Those that have something.
  private var rows: [TurnSource: Row] = [:]
  /// The same, the next one first.
  private var order = CircularBuffer<TurnSource>()
  private(set) var count = 0

  var isEmpty: Bool { count == 0 }

  /// - Parameter now: how long the loop has worked so far.
  mutating func append(_ element: Element, of source: TurnSource, at now: TimeAmount) {
    count += 1
    if rows[source] == nil {
      rows[source] = Row(seen: now)
      order.append(source)
    }
    rows[source]?.waiting.append((element, now))
  }

  mutating func popFirst(at now: TimeAmount) -> Element? {
    guard let source = order.first, let first = rows[source]?.waiting.popFirst() else { return nil }
    count -= 1
    rows[source]?.taken += 1
    if rows[source]?.waiting.isEmpty == true {
      rows[source] = nil
      order.removeFirst()
    } else if rows[source]?.taken == 2 {
      rows[source]?.taken = 0
      rows[source]?.seen = now
      order.removeFirst()
      order.append(source)
    }
    return first.element
  }

  /// About how long something of the source would wait that came now: as long as what it has there already, or as whoever
  /// is next has since its last turn.
  func wait(of source: TurnSource, at now: TimeAmount) -> TimeAmount {
    if let first = rows[source]?.waiting.first { return now - first.since }
    return order.first.flatMap { rows[$0] }.map { now - $0.seen } ?? .zero
  }
}
