import Storage

/// Rows by a group and their keys, in the order of keys within a group, with what it takes to undo what was changed since
/// the last transaction ended.
struct MemoryOrderedTable<Group: Hashable & Sendable, Key: Comparable & Sendable, Row: Sendable>: Sendable {
  private(set) var groups: [Group: [(key: Key, row: Row)]] = [:]
  private var undo: [(group: Group, key: Key, row: Row?)] = []

  subscript(_ group: Group, _ key: Key) -> Row? {
    get {
      guard let rows = groups[group] else { return nil }
      let index = Self.index(of: key, in: rows)
      return index < rows.count && rows[index].key == key ? rows[index].row : nil
    }
    set {
      undo.append((group, key, self[group, key]))
      store(newValue, group, key)
    }
  }

  func all(_ group: Group) -> [(key: Key, row: Row)] { groups[group] ?? [] }

  func all(_ group: Group, beyond key: Key?) -> ArraySlice<(key: Key, row: Row)> {
    let rows = all(group)
    guard let key else { return rows[...] }
    let index = Self.index(of: key, in: rows)
    return rows[(index < rows.count && rows[index].key == key ? index + 1 : index)...]
  }

  /// A second row with the same key is the error that a schema would answer.
  mutating func insert(_ group: Group, _ key: Key, _ row: Row, _ operation: String) throws(StorageError) {
    guard self[group, key] == nil else { throw StorageError(.constraint(.unique), operation: operation) }
    self[group, key] = row
  }

  /// Removes the first of a group, at most `limit`. Returns how many.
  mutating func remove(_ group: Group, limit: Int) -> Int {
    let keys = all(group).prefix(limit).map(\.key)
    for key in keys.reversed() { self[group, key] = nil }
    return keys.count
  }

  /// Removes those of several groups, at most `limit` of all. Returns how many.
  mutating func remove(_ groups: [Group], limit: Int) -> Int {
    groups.reduce(0) { $0 + remove($1, limit: limit - $0) }
  }

  mutating func commit() { undo.removeAll(keepingCapacity: true) }

  mutating func rollBack() {
    for (group, key, row) in undo.reversed() { store(row, group, key) }
    undo.removeAll()
  }

  private mutating func store(_ row: Row?, _ group: Group, _ key: Key) {
    let index = Self.index(of: key, in: all(group))
    let isThere = groups[group].map { index < $0.count && $0[index].key == key } ?? false
    switch (row, isThere) {
    case (let row?, true): groups[group]?[index].row = row
    case (let row?, false): groups[group, default: []].insert((key, row), at: index)
    case (nil, true): groups[group]?.remove(at: index)
    case (nil, false): break
    }
  }

  /// Of the first that is not before `key`.
  private static func index(of key: Key, in rows: [(key: Key, row: Row)]) -> Int {
    var (low, high) = (0, rows.count)
    while low < high {
      let middle = (low + high) / 2
      if rows[middle].key < key { low = middle + 1 } else { high = middle }
    }
    return low
  }
}
