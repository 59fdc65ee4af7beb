internal import NIOCore

/// New connections that wait to be set up, by their sources.
///
/// A source that had none here comes next with its first, by turns with those that have more: who opens one now and then does
/// not wait for hundreds that open one after the other, and however many come for the first time, half of the turns are for who
/// waits longer. A source stays known until its turn comes and it has nothing, so that nobody is new all the time.
///
/// Each operation costs a look or two into a hash table, on average: a turn passes over those that have nothing any more.
struct NewcomerTurns<Element> {
  /// Those that have something, or had a turn not long ago.
  private var rows: [TurnSource: CircularBuffer<Element>] = [:]
  /// Who has had no turn yet.
  private var new = CircularBuffer<TurnSource>()
  /// All others, the next one first.
  private var known = CircularBuffer<TurnSource>()
  private var wasNew = false
  private(set) var count = 0

  var isEmpty: Bool { count == 0 }

  mutating func append(_ element: Element, of source: TurnSource) {
    count += 1
    if rows[source] == nil {
      rows[source] = []
      new.append(source)
    }
    rows[source]?.append(element)
  }

  mutating func popFirst() -> Element? {
    guard count > 0 else { return nil }
    let element = popNext()
    if element != nil { count -= 1 }
    // Nobody waits: whoever comes then is new.
    if count == 0 { self = NewcomerTurns() }
    return element
  }

  private mutating func popNext() -> Element? {
    wasNew.toggle()
    if wasNew || known.isEmpty, let source = new.popFirst() {
      known.append(source)
      return rows[source]?.popFirst()
    }
    while let source = known.popFirst() {
      if let element = rows[source]?.popFirst() {
        known.append(source)
        return element
      }
      rows[source] = nil
    }
    return new.isEmpty ? nil : popNext()
  }
}
