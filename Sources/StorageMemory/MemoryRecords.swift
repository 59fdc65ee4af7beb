import LatchkeyModel
import Storage

struct MemoryOwners: RecordOwnerRows {
  let tables: MemoryMigrationTables

  func find(_ id: SubjectID) -> RecordOwner? { tables.owners[id] }

  func lock(_ id: SubjectID) -> RecordOwner? { find(id) }

  func costOfGuests() -> Int {
    tables.owners.rows.values.filter(\.isGuest).reduce(0) {
      $0 + RecordBounds.cost(records: $1.records, bytes: $1.bytes)
    }
  }

  func put(_ owner: RecordOwner, _ id: SubjectID) { tables.owners[id] = owner }
}

struct MemoryCounts: CollectionCountRows {
  let tables: MemoryMigrationTables

  func find(_ collection: CollectionName, of subject: SubjectID) -> Int { tables.counts[subject, collection] ?? 0 }

  func all(of subject: SubjectID) -> [CollectionCount] {
    tables.counts.all(subject).map { CollectionCount(collection: $0.key, count: $0.row) }
  }

  func count(of subject: SubjectID) -> Int { tables.counts.all(subject).count }

  func put(_ count: Int, _ collection: CollectionName, of subject: SubjectID) throws(StorageError) {
    guard count >= 0 else { throw StorageError(.constraint(.check), operation: "count records") }
    tables.counts[subject, collection] = count == 0 ? nil : count
  }

  func remove(of subject: SubjectID) { _ = tables.counts.remove(subject, limit: .max) }
}

struct MemoryRecords: RecordRows {
  let tables: MemoryMigrationTables

  func find(_ names: [RecordName], of subject: SubjectID) -> [RecordLayers.Held?] {
    names.map { tables.records[subject, $0] }
  }

  func lengths(of names: [RecordName], of subject: SubjectID) -> [Int?] {
    find(names, of: subject).map { $0?.content.value.count }
  }

  func page(
    _ collection: CollectionName, of subject: SubjectID, in order: RecordOrder, count: Int, bytes: Int
  ) -> RecordPage {
    let found = records(collection, of: subject, in: order)
    let page = found.fitting(count: count, bytes: bytes) { $0.content.value.count + $0.name.key.description.utf8.count }
    return RecordPage(records: Array(page), hasMore: page.count < found.count)
  }

  func pairs(
    _ collection: CollectionName, of subject: SubjectID, with other: SubjectID, in order: RecordOrder, count: Int,
    bytes: Int
  ) -> (pairs: [RecordPair], hasMore: Bool) {
    let page = page(collection, of: subject, in: order, count: count, bytes: bytes)
    let pairs = page.records.map { RecordPair(record: $0, other: tables.record($0.name, of: other)) }
    return (pairs, page.hasMore)
  }

  private func records(_ collection: CollectionName, of subject: SubjectID, in order: RecordOrder) -> [Record] {
    let all = tables.records.all(subject).filter { $0.key.collection == collection }
    let records = all.map { Record(name: $0.key, content: $0.row.content, revision: $0.row.revision) }
    switch order {
    case .keys(let key): return records.filter { record in key.map { $0 < record.name.key } ?? true }
    case .newest(let position):
      let older = records.filter { record in
        position.map { (record.content.updatedAt, record.name.key) < ($0.updatedAt, $0.key) } ?? true
      }
      return older.sorted { ($1.content.updatedAt, $1.name.key) < ($0.content.updatedAt, $0.name.key) }
    }
  }

  func overlap(
    _ collection: CollectionName, of subject: SubjectID, with other: SubjectID
  ) -> (shared: Int, overflowing: Int) {
    let own = tables.records.all(subject).filter { $0.key.collection == collection }
    let shared = own.compactMap { own in tables.records[other, own.key].map { (own.row.content, $0.content) } }
    return (shared.count, shared.filter { $0.number.addingReportingOverflow($1.number).overflow }.count)
  }

  func write(_ writes: [RecordWrite], of subject: SubjectID) throws(StorageError) {
    for write in writes {
      let (name, held) = (write.draft.name, tables.records[subject, write.draft.name])
      if write.isNew && held != nil { throw StorageError(.constraint(.unique), operation: "write a record") }
      if !write.isNew && held == nil { continue }
      tables.records[subject, name] = RecordLayers.Held(
        content: write.draft.content, revision: write.revision, born: held?.born ?? write.revision)
    }
  }

  func remove(_ names: [RecordName], of subject: SubjectID) -> Int {
    let held = names.filter { tables.records[subject, $0] != nil }
    for name in held { tables.records[subject, name] = nil }
    return held.count
  }

  func remove(of subject: SubjectID, limit: Int) -> Int { tables.records.remove(subject, limit: limit) }
}

extension MemoryMigrationTables {
  func record(_ name: RecordName, of subject: SubjectID) -> Record? {
    records[subject, name].map { Record(name: name, content: $0.content, revision: $0.revision) }
  }
}

extension Sequence {
  /// The first `count` whose sizes are at most `bytes` together; one at least.
  func fitting(count: Int, bytes: Int, _ size: (Element) -> Int) -> [Element] {
    var (fitting, total): ([Element], Int) = ([], 0)
    for element in self {
      total += size(element)
      guard fitting.count < count, total <= bytes || fitting.isEmpty else { break }
      fitting.append(element)
    }
    return fitting
  }
}
