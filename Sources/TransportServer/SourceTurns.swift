internal import NIOCore

/// What waits on an event loop, by its sources: they take turns of two pieces each, or of more where those are short, so
/// that nobody waits behind all that another has. What one source has goes in the order in which it came. Where each has as
/// much as a connection has at a time, its bytes and its tasks, the sources go in the order in which they came.
///
/// Connections that a proxy shares between its clients have a turn each before the next source has its, if they are not too many:
/// what those clients ask for is in them, and is the clients' own only once it is read.
///
/// Each operation costs a look or two into a hash table.
struct SourceTurns<Element> {
  private struct Row {
    var waiting: CircularBuffer<(element: Element, since: TimeAmount)> = []
    /// When the source came, or had its last turn.
    var seen: TimeAmount
    /// Pieces of this turn, and when it began.
    var taken = 0
    var began = TimeAmount.zero
  }

  /// Those that have something.
  private var rows: [TurnSource: Row] = [:]
  /// The same, the next one first: sources, and connections that are shared.
  private var order = CircularBuffer<TurnSource>()
  private var shared = CircularBuffer<TurnSource>()
  /// How many of those have a turn before the next source does.
  private var sharedLeft = 0
  private(set) var count = 0
  private let turn: TimeAmount

  /// - Parameter turn: how long a source goes on that has more than two pieces.
  init(turn: TimeAmount) {
    self.turn = turn
  }

  var isEmpty: Bool { count == 0 }

  /// - Parameter now: how long the loop has worked so far.
  mutating func append(_ element: Element, of source: TurnSource, at now: TimeAmount) {
    count += 1
    if let place = rows.index(forKey: source) { return rows.values[place].waiting.append((element, now)) }
    rows[source] = Row(waiting: [(element, now)], seen: now)
    if source.isShared { shared.append(source) } else { order.append(source) }
  }

  mutating func popFirst(at now: TimeAmount) -> Element? {
    endTurn(at: now)
    guard let source = next, let place = rows.index(forKey: source) else { return nil }
    guard let first = rows.values[place].waiting.popFirst() else { return nil }
    count -= 1
    if rows.values[place].taken == 0 { rows.values[place].began = now }
    rows.values[place].taken += 1
    if rows.values[place].waiting.isEmpty {
      rows.remove(at: place)
      removeNext()
    }
    return first.element
  }

  /// Whose turn it is.
  private var next: TurnSource? {
    sharedLeft > 0 ? shared.first ?? order.first : order.first ?? shared.first
  }

  /// The turn of whose it is has ended.
  private mutating func removeNext() {
    guard let source = next else { return }
    if source.isShared {
      shared.removeFirst()
      sharedLeft = max(sharedLeft - 1, 0)
    } else {
      order.removeFirst()
      sharedLeft = min(shared.count, Limits.sharedTurns)
    }
  }

  /// Has the next source come first if this one's turn is over.
  private mutating func endTurn(at now: TimeAmount) {
    guard let source = next, let place = rows.index(forKey: source) else { return }
    guard rows.values[place].taken >= 2, now - rows.values[place].began >= turn else { return }
    rows.values[place].taken = 0
    rows.values[place].seen = now
    removeNext()
    if source.isShared { shared.append(source) } else { order.append(source) }
  }

  /// About how long something of the source would wait that came now: as long as what it has there already, or as whoever
  /// is next has since its last turn.
  func wait(of source: TurnSource, at now: TimeAmount) -> TimeAmount {
    if let first = rows[source]?.waiting.first { return now - first.since }
    let first = source.isShared ? shared.first : order.first
    return first.flatMap { rows[$0] }.map { now - $0.seen } ?? .zero
  }
}
