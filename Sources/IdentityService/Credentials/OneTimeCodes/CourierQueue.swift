import Callers
import NIOCore

/// Messages that wait for their delivery, taken from each source in turn: who sends much, or to recipients that take
/// long, waits for itself.
struct CourierQueue<Parcel: Sendable>: Sendable {
  enum Entry {
    case taken
    /// Taken, and the newest of the source with the most dropped for it.
    case inPlaceOfAnother
    case refused
  }

  private var share = FairShare<String>(capacity: Limits.codesWaiting)
  private var waiting: [String: CircularBuffer<Parcel>] = [:]
  /// The sources with something waiting, the next one first.
  private var turns = CircularBuffer<String>()
  /// Deliveries under way.
  private var underWay: [String: Int] = [:]
  private var total = 0

  mutating func put(_ parcel: Parcel, of source: String) -> Entry {
    let verdict = share.take(for: source)
    if verdict == .refused { return .refused }
    if waiting[source] == nil { turns.append(source) }
    waiting[source, default: CircularBuffer()].append(parcel)
    guard case .inPlaceOf(let largest) = verdict else { return .taken }
    share.giveBack(of: largest)
    _ = waiting[largest]?.popLast()
    if waiting[largest]?.isEmpty == true {
      waiting[largest] = nil
      turns.removeAll { $0 == largest }
    }
    return .inPlaceOfAnother
  }

  /// The next one to deliver; nil when nothing waits that may begin now. ``done(_:)`` when it is over.
  mutating func next() -> (parcel: Parcel, source: String)? {
    guard total < Limits.codeDeliveries else { return nil }
    for _ in 0..<turns.count {
      let source = turns.removeFirst()
      guard underWay[source, default: 0] < Limits.codeDeliveriesPerSource else {
        turns.append(source)
        continue
      }
      guard let parcel = waiting[source]?.popFirst() else { continue }
      if waiting[source]?.isEmpty == true { waiting[source] = nil } else { turns.append(source) }
      share.giveBack(of: source)
      underWay[source, default: 0] += 1
      total += 1
      return (parcel, source)
    }
    return nil
  }

  mutating func done(_ source: String) {
    total -= 1
    let left = underWay[source, default: 1] - 1
    underWay[source] = left == 0 ? nil : left
  }
}
