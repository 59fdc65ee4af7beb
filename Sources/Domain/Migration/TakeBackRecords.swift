import LatchkeyModel
import Storage

/// Takes back what a migration did.
///
/// The account was not frozen meanwhile, and other guests may have been merged into it since: `RecordLayers` says what
/// becomes of each record.
extension TakeStep {
  func takeBack(
    _ migration: inout Migration, in rows: some MigrationTransaction
  ) async throws(StorageError) -> Bool {
    var account = try await SubjectRecords(of: migration.target, in: rows)
    let merged = try await rows.merged.first(of: id, limit: Limits.applyRecords)
    var remained: [CollectionName: Int] = [:]
    var relaid = RelaidMerges()
    var (layersLeft, bytesLeft) = (Limits.undoLayers, Limits.applyBytes)
    var done = 0
    // No layers for those that come after.
    var over: [RecordName] = []
    for one in merged where layersLeft > 0 && bytesLeft > 0 {
      done += 1
      defer { over.append(one.name) }
      guard one.isWritten else { continue }
      try await rows.merged.remove(over, of: id)
      over = []
      let layers = RecordLayers(
        held: try await rows.records.find(one.target, of: account.subject),
        layers: try await rows.merged.layers(of: one.target, into: account.subject))
      if try await takeBack(one, layers, from: &account, &relaid) { remained[one.name.collection, default: 0] += 1 }
      layersLeft -= layers.layers.count
      bytesLeft -= layers.bytes
    }
    try await rows.merged.remove(over, of: id)
    try await relaid.note(except: id, in: rows)
    try await account.finish()
    var isLast = done == merged.count && done < Limits.applyRecords
    if isLast {
      isLast = try await rows.setAside.remove(of: id, limit: Limits.purgeRecords) < Limits.purgeRecords
    }
    try await report(remained, isLast: isLast, in: rows)
    if isLast { try await thaw(migration.guest, in: rows) }
    return migration.recordsUndone(isLast: isLast, at: now)
  }

  /// Takes what became of one record of the guest out of the account's. Whether that is left other than it was before the
  /// merge.
  private func takeBack<Rows: MigrationTransaction>(
    _ one: MergedName, _ layers: RecordLayers, from account: inout SubjectRecords<Rows>, _ relaid: inout RelaidMerges
  ) async throws(StorageError) -> Bool {
    let rows = account.rows
    var guests: [MigrationID: [RecordName: RecordContent]] = [:]
    for layer in layers.needed(removing: one.name, of: id) {
      guests[layer.migration, default: [:]][layer.source] = try await guest(of: layer, in: rows)
    }
    guard let removal = layers.removing(one.name, of: id, guest: { guests[$0.migration]?[$0.source] }) else {
      return false
    }
    var revision = layers.held?.revision ?? 0
    if removal.isChange {
      if let content = removal.content {
        revision = account.takeRevisions(1)
        var change = RecordChange()
        change.write(
          RecordDraft(name: one.target, content: content), over: layers.held?.content.value.count, revision: revision)
        try await account.write(change)
      } else if let held = layers.held {
        try await account.remove(one.target, held)
        revision = 0
      }
    }
    for layer in removal.remembered(at: revision) {
      let record = layer.merged(into: one.target)
      try await rows.merged.change(record, of: layer.migration)
      relaid.add(record, in: layers.before(layer))
    }
    for (layer, guest, reason) in removal.unfit {
      // The guest's record does not go into the account any more: it waits for a person.
      let record = MergedRecord(name: layer.source, outcome: .refused)
      try await rows.merged.change(record, of: layer.migration)
      relaid.add(record, in: layers.before(layer))
      let waiting = SetAsideRecord(name: layer.source, content: guest, reason: reason)
      try await rows.setAside.insert([waiting], of: layer.migration)
    }
    return removal.isLeft
  }

  /// What the guest of a layer had: kept once it is purged, still its own before. Nil when it is forgotten.
  private func guest(
    of layer: RecordLayers.Layer, in rows: some MigrationTransaction
  ) async throws(StorageError) -> RecordContent? {
    if let moved = try await rows.moved.find(layer.source, of: layer.migration) { return moved }
    guard let guest = try await rows.migrations.find(layer.migration)?.migration.guest else { return nil }
    return try await rows.records.find(layer.source, of: guest)?.content
  }

  /// Counts what was left other than it was. In the end a collection in which everything is as it was has nothing to tell.
  private func report(
    _ remained: [CollectionName: Int], isLast: Bool, in rows: some MigrationTransaction
  ) async throws(StorageError) {
    guard isLast || !remained.isEmpty else { return }
    for var report in try await rows.reports.all(of: id) {
      if let count = remained[report.collection] {
        report.countRemained(count)
        try await rows.reports.change(report, of: id)
      }
      if isLast && report.remained == 0 { try await rows.reports.remove(report.collection, of: id) }
    }
  }

  /// The guest may write again.
  private func thaw(_ guest: SubjectID, in rows: some MigrationTransaction) async throws(StorageError) {
    var guest = try await SubjectRecords(of: guest, in: rows)
    guard guest.owner.migration == id, !guest.owner.isMigrated else { return }
    guest.owner.migration = nil
    try await guest.finish()
  }

  // MARK: Giving back

  /// The guest, which is frozen, gets its records again.
  func restore(
    _ migration: inout Migration, in rows: some MigrationTransaction
  ) async throws(StorageError) -> Bool {
    let drafts = try await rows.moved.first(of: id, count: Limits.applyRecords, bytes: Limits.applyBytes)
    var guest = try await SubjectRecords(of: migration.guest, in: rows)
    var revision = guest.takeRevisions(drafts.count)
    var change = RecordChange()
    for draft in drafts {
      change.write(draft, over: nil, revision: revision)
      revision += 1
    }
    try await guest.write(change)
    try await guest.finish()
    try await rows.moved.remove(drafts.map(\.name), of: id)
    return migration.recordsRestored(isLast: drafts.isEmpty) != nil
  }
}

/// What taking back one merge changed of others: what became of their records, and how much is kept of them.
private struct RelaidMerges {
  private struct Change {
    var bytes = 0
    var outcomes: [CollectionName: [MergeOutcome: Int]] = [:]
  }

  private var changes: [MigrationID: Change] = [:]

  /// `layer` became `record`.
  mutating func add(_ record: MergedRecord, in layer: RecordLayers.Layer?) {
    guard let layer else { return }
    var change = changes[layer.migration] ?? Change()
    change.bytes += (record.old?.value.count ?? 0) - (layer.old?.value.count ?? 0)
    if record.outcome != layer.outcome {
      change.outcomes[record.name.collection, default: [:]][layer.outcome, default: 0] -= 1
      change.outcomes[record.name.collection, default: [:]][record.outcome, default: 0] += 1
    }
    changes[layer.migration] = change
  }

  /// Who is being verified learns of it, and is held to what is true now. What was told of a merge that is done stays.
  func note(except id: MigrationID, in rows: some MigrationTransaction) async throws(StorageError) {
    for (other, change) in changes.sorted(by: { $0.key < $1.key }) where other != id {
      guard var stored = try await rows.migrations.lock(other) else { continue }
      stored.keptBytes += change.bytes
      if stored.migration.isMerging && !change.outcomes.isEmpty {
        stored.relaid += 1
        for var report in try await rows.reports.all(of: other) {
          guard let changes = change.outcomes[report.collection] else { continue }
          report.recount(changes)
          try await rows.reports.change(report, of: other)
        }
      }
      try await rows.migrations.change(stored)
    }
  }
}

extension RecordLayers {
  /// The same layer as it is.
  fileprivate func before(_ layer: Layer) -> Layer? {
    layers.first { $0.migration == layer.migration && $0.source == layer.source }
  }
}

extension RecordLayers.Layer {
  /// What is remembered of it, as a layer of the account's record `target`.
  fileprivate func merged(into target: RecordName) -> MergedRecord {
    MergedRecord(
      name: source, outcome: outcome, position: position, found: found, revision: revision, old: old,
      targetKey: target == source ? nil : target.key, policy: isDecided ? policy : nil)
  }
}
