import LatchkeyModel
import Storage

/// Rows by their keys, with what it takes to undo what was changed since the last transaction ended.
struct MemoryTable<Key: Hashable & Sendable, Row: Sendable>: Sendable {
  private(set) var rows: [Key: Row] = [:]
  private var undo: [(key: Key, row: Row?)] = []

  subscript(_ key: Key) -> Row? {
    get { rows[key] }
    set {
      undo.append((key, rows[key]))
      rows[key] = newValue
    }
  }

  /// A second row with the same key is the error that a schema would answer.
  mutating func insert(_ key: Key, _ row: Row, _ operation: String) throws(StorageError) {
    guard rows[key] == nil else { throw StorageError(.constraint(.unique), operation: operation) }
    self[key] = row
  }

  /// Changes a row; does nothing when there is none.
  mutating func change(_ key: Key, _ change: (inout Row) -> Void) {
    guard var row = rows[key] else { return }
    change(&row)
    self[key] = row
  }

  /// Removes those that match. Returns how many.
  @discardableResult
  mutating func remove(where matches: (Key, Row) -> Bool) -> Int {
    let keys = rows.filter { matches($0.key, $0.value) }.map(\.key)
    for key in keys { self[key] = nil }
    return keys.count
  }

  /// Removes at most `limit` of those whose time, if they have one, is before another, the oldest first. Returns how many.
  mutating func removeOldest(before time: Timestamp, limit: Int, by age: (Key, Row) -> Timestamp?) -> Int {
    let old = rows.compactMap { key, row in age(key, row).map { (key: key, time: $0) } }.filter { $0.time < time }
    let oldest = old.sorted { $0.time < $1.time }.prefix(limit)
    for (key, _) in oldest { self[key] = nil }
    return oldest.count
  }

  mutating func commit() { undo.removeAll(keepingCapacity: true) }

  mutating func rollBack() {
    for (key, row) in undo.reversed() { rows[key] = row }
    undo.removeAll()
  }
}
