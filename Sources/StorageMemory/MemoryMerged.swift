import LatchkeyModel
import Storage

struct MemoryMerged: MergedRecordRows {
  let tables: MemoryMigrationTables

  func insert(_ records: [MergedRecord], of id: MigrationID) throws(StorageError) {
    for record in records { try tables.merged.insert(id, record.name, record, "insert what became of a record") }
  }

  func first(of id: MigrationID, limit: Int) -> [MergedName] {
    tables.merged.all(id).prefix(limit).map { name, record in
      MergedName(name: name, target: record.target, isWritten: record.revision != nil)
    }
  }

  func layers(of names: [RecordName], into account: SubjectID) -> [[RecordLayers.Layer]] {
    names.map { layers(of: $0, into: account) }
  }

  func weights(of names: [RecordName], into account: SubjectID) -> [LayersWeight] {
    layers(of: names, into: account).map { layers in
      layers.reduce(into: LayersWeight()) { weight, layer in
        weight.layers += 1
        weight.bytes += (layer.old?.value.count ?? 0) + (guest(of: layer)?.value.count ?? 0)
      }
    }
  }

  private func guest(of layer: RecordLayers.Layer) -> RecordContent? {
    tables.moved[layer.migration, layer.source]
      ?? tables.migrations[layer.migration].flatMap { tables.records[$0.migration.guest, layer.source]?.content }
  }

  private func layers(of name: RecordName, into account: SubjectID) -> [RecordLayers.Layer] {
    var layers: [RecordLayers.Layer] = []
    for stored in tables.into(account) where stored.migration.isRemembered {
      let id = stored.migration.id
      guard let report = tables.reports[id, name.collection] else { continue }
      let sources = [name.key, name.key.unappended].compactMap { $0 }
      for key in sources {
        guard let record = tables.merged[id, RecordName(collection: name.collection, key: key)], record.target == name,
          let position = record.position ?? record.revision
        else { continue }
        layers.append(
          RecordLayers.Layer(
            migration: id, source: record.name, policy: record.policy ?? report.policy, isDecided: record.policy != nil,
            outcome: record.outcome, position: position, found: record.found, revision: record.revision,
            old: record.old))
      }
    }
    return layers
  }

  func change(_ records: [MergedRecord], of id: MigrationID) {
    for record in records where tables.merged[id, record.name] != nil { tables.merged[id, record.name] = record }
  }

  func remove(_ names: [RecordName], of id: MigrationID) {
    for name in names { tables.merged[id, name] = nil }
  }

  func remove(of id: MigrationID, limit: Int) -> Int { tables.merged.remove(id, limit: limit) }

  func remove(into account: SubjectID, limit: Int) -> Int {
    tables.merged.remove(tables.into(account).map(\.migration.id), limit: limit)
  }

  func recount(_ id: MigrationID, of guest: SubjectID, beyond place: RecordName?, count: Int) -> Recount {
    var recount = Recount()
    let records = tables.records.all(guest, beyond: place).prefix(count).map(\.key)
    if records.count == count { recount.end = records.last }
    let all = tables.merged.all(id, beyond: place)
    let merged = all.prefix { row in recount.end.map { row.key <= $0 } ?? true }
    recount.unmerged = records.filter { tables.merged[id, $0] == nil }.count
    for (name, record) in merged {
      if tables.records[guest, name] == nil { recount.foreign += 1 }
      let isSetAside = record.outcome == .refused || record.outcome == .asked
      if isSetAside && tables.setAside[id, name] == nil { recount.lost += 1 }
      recount.outcomes[name.collection, default: [:]][record.outcome, default: 0] += 1
    }
    return recount
  }
}

extension MergedRecord {
  var target: RecordName { RecordName(collection: name.collection, key: targetKey ?? name.key) }
}

extension Migration {
  /// Whether it is under way or can be taken back.
  fileprivate var isRemembered: Bool { !isReversed && (!isFinished || undoUntil != nil) }
}

struct MemorySetAside: SetAsideRows {
  let tables: MemoryMigrationTables

  func find(_ name: RecordName, of id: MigrationID) -> RecordContent? { tables.setAside[id, name]?.content }

  func page(
    of id: MigrationID, beyond name: RecordName?, with account: SubjectID, count: Int, bytes: Int
  ) -> (conflicts: [MigrationConflict], hasMore: Bool) {
    let all = tables.setAside.all(id, beyond: name).map { name, row in
      MigrationConflict(
        name: name, reason: row.reason, guest: row.content, account: tables.record(name, of: account))
    }
    let page = all.fitting(count: count, bytes: bytes) {
      $0.guest.value.count + ($0.account?.content.value.count ?? 0) + $0.name.bytes
    }
    return (page, page.count < all.count)
  }

  func insert(_ records: [SetAsideRecord], of id: MigrationID) throws(StorageError) {
    for record in records {
      let row = MemoryMigrationTables.KeptRow(content: record.content, reason: record.reason)
      try tables.setAside.insert(id, record.name, row, "set a record aside")
    }
  }

  func remove(_ name: RecordName, of id: MigrationID) { tables.setAside[id, name] = nil }

  func remove(of id: MigrationID, limit: Int) -> Int { tables.setAside.remove(id, limit: limit) }

  func remove(into account: SubjectID, limit: Int) -> Int {
    tables.setAside.remove(tables.into(account).map(\.migration.id), limit: limit)
  }

  func size(into account: SubjectID, limit: Int) -> (records: Int, bytes: Int) {
    let waiting = tables.into(account).flatMap { tables.setAside.all($0.migration.id) }.prefix(limit)
    return (waiting.count, waiting.reduce(0) { $0 + $1.row.content.value.count })
  }
}

struct MemoryMoved: MovedRecordRows {
  let tables: MemoryMigrationTables

  func find(_ names: [RecordName], of id: MigrationID) -> [RecordContent?] { names.map { tables.moved[id, $0] } }

  func first(of id: MigrationID, count: Int, bytes: Int) -> [RecordDraft] {
    var drafts: [RecordDraft] = []
    var size = 0
    for (name, content) in tables.moved.all(id).prefix(count) where size < bytes {
      drafts.append(RecordDraft(name: name, content: content))
      size += content.value.count
    }
    return drafts
  }

  func take(from guest: SubjectID, for id: MigrationID, count: Int, bytes: Int) throws(StorageError) -> Int {
    var (taken, size) = (0, 0)
    for (name, held) in tables.records.all(guest).prefix(count) where size < bytes {
      try tables.moved.insert(id, name, held.content, "keep what a guest had")
      taken += 1
      size += held.content.value.count
    }
    return tables.records.remove(guest, limit: taken)
  }

  func remove(_ names: [RecordName], of id: MigrationID) {
    for name in names { tables.moved[id, name] = nil }
  }

  func remove(of id: MigrationID, limit: Int) -> Int { tables.moved.remove(id, limit: limit) }

  func remove(into account: SubjectID, limit: Int) -> Int {
    tables.moved.remove(tables.into(account).map(\.migration.id), limit: limit)
  }
}
