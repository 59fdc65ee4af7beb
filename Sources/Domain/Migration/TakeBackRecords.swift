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
    // Each is another record of the account, so that what becomes of one changes nothing that is known of the next.
    var targets: Set<RecordName> = []
    var left = merged.prefix { targets.insert($0.target).inserted }
    var done: [MergedName] = []
    var (room, names) = (Room(), 8)
    var taken = TakenBack()
    while !left.isEmpty && !room.isUsedUp {
      let stretch = try await stretch(of: left.prefix(names), from: account, within: &room)
      try await takeBack(stretch, from: &account, &taken)
      done += stretch
      left = left.dropFirst(stretch.count)
      names = min(2 * names, Limits.undoNames)
    }
    try await taken.write(to: &account)
    try await rows.merged.remove(done.map(\.name), of: id)
    try await taken.relaid.note(except: id, in: rows)
    try await account.finish()
    var isLast = done.count == merged.count && merged.count < Limits.applyRecords
    if isLast {
      isLast = try await rows.setAside.remove(of: id, limit: Limits.purgeRecords) < Limits.purgeRecords
    }
    try await report(taken.remained, isLast: isLast, in: rows)
    if isLast { try await thaw(migration.guest, in: rows) }
    return migration.recordsUndone(isLast: isLast, at: now)
  }

  /// What a step may still look at.
  private struct Room {
    var layers = Limits.undoLayers
    var bytes = Limits.applyBytes

    var isUsedUp: Bool { layers <= 0 || bytes <= 0 }
  }

  /// The first of them for which there is room: all, or until it is used up.
  private func stretch<Rows: MigrationTransaction>(
    of merged: ArraySlice<MergedName>, from account: SubjectRecords<Rows>, within room: inout Room
  ) async throws(StorageError) -> ArraySlice<MergedName> {
    let written = merged.filter(\.isWritten).map(\.target)
    let lengths = try await account.rows.records.lengths(of: written, of: account.subject)
    let weights = try await account.rows.merged.weights(of: written, into: account.subject)
    var next = zip(lengths, weights).makeIterator()
    return merged.prefix { one in
      if room.isUsedUp { return false }
      if one.isWritten, let (length, weight) = next.next() {
        room.layers -= weight.layers
        room.bytes -= (length ?? 0) + weight.bytes
      }
      return true
    }
  }

  private func takeBack<Rows: MigrationTransaction>(
    _ stretch: ArraySlice<MergedName>, from account: inout SubjectRecords<Rows>, _ taken: inout TakenBack
  ) async throws(StorageError) {
    let written = stretch.filter(\.isWritten)
    let targets = written.map(\.target)
    let held = try await account.rows.records.find(targets, of: account.subject)
    let layers = try await account.rows.merged.layers(of: targets, into: account.subject)
    let laid = zip(written, zip(held, layers)).map { one, laid in
      LaidRecord(merged: one, layers: RecordLayers(held: laid.0, layers: laid.1))
    }
    let needed = laid.flatMap { $0.layers.needed(removing: $0.merged.name, of: id) }
    let guests = try await guests(of: needed, in: account.rows)
    for one in laid { takeBack(one, guests, from: &account, &taken) }
  }

  /// Decides what becomes of one record when what the guest brought is taken out of it.
  private func takeBack<Rows: MigrationTransaction>(
    _ one: LaidRecord, _ guests: GuestContents, from account: inout SubjectRecords<Rows>, _ taken: inout TakenBack
  ) {
    let (name, target, layers) = (one.merged.name, one.merged.target, one.layers)
    guard let removal = layers.removing(name, of: id, guest: { guests[$0.migration]?[$0.source] }) else { return }
    var revision = layers.held?.revision ?? 0
    if removal.isChange {
      if let content = removal.content {
        revision = account.takeRevisions(1)
        taken.change.write(
          RecordDraft(name: target, content: content), over: layers.held?.content.value.count, revision: revision)
      } else if let held = layers.held {
        taken.removed.append((target, held))
        revision = 0
      }
    }
    for layer in removal.remembered(at: revision) {
      taken.remember(layer.merged(into: target), in: layer.migration, before: layers.before(layer))
    }
    for (layer, guest, reason) in removal.unfit {
      // The guest's record does not go into the account any more: it waits for a person.
      let refused = MergedRecord(name: layer.source, outcome: .refused)
      taken.remember(refused, in: layer.migration, before: layers.before(layer))
      let waiting = SetAsideRecord(name: layer.source, content: guest, reason: reason)
      taken.setAside[layer.migration, default: []].append(waiting)
    }
    if removal.isLeft { taken.remained[name.collection, default: 0] += 1 }
  }

  /// What the guests of layers had: kept once they are purged, still their own before. What is forgotten is not in it.
  private func guests(
    of layers: [RecordLayers.Layer], in rows: some MigrationTransaction
  ) async throws(StorageError) -> GuestContents {
    var guests: GuestContents = [:]
    for (migration, layers) in Dictionary(grouping: layers, by: \.migration).sorted(by: { $0.key < $1.key }) {
      let sources = layers.map(\.source)
      var contents: [RecordName: RecordContent] = [:]
      for (source, moved) in zip(sources, try await rows.moved.find(sources, of: migration)) {
        contents[source] = moved
      }
      let others = sources.filter { contents[$0] == nil }
      if !others.isEmpty, let guest = try await rows.migrations.find(migration)?.migration.guest {
        for (source, own) in zip(others, try await rows.records.find(others, of: guest)) {
          contents[source] = own?.content
        }
      }
      guests[migration] = contents
    }
    return guests
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

/// What guests of other merges had.
private typealias GuestContents = [MigrationID: [RecordName: RecordContent]]

/// A record that was merged, and all that lies on the account's.
private struct LaidRecord {
  let merged: MergedName
  let layers: RecordLayers
}

/// What comes of taking back some records.
private struct TakenBack {
  /// The account's records that are other ones then, and those that are gone.
  var change = RecordChange()
  var removed: [(name: RecordName, held: RecordLayers.Held)] = []
  /// What is to be remembered of other merges.
  private var remembered: [MigrationID: [MergedRecord]] = [:]
  var setAside: [MigrationID: [SetAsideRecord]] = [:]
  private(set) var relaid = RelaidMerges()
  /// How many are left other than they were before the merge.
  var remained: [CollectionName: Int] = [:]

  /// `layer` became `record`.
  mutating func remember(_ record: MergedRecord, in migration: MigrationID, before layer: RecordLayers.Layer?) {
    remembered[migration, default: []].append(record)
    relaid.add(record, in: layer)
  }

  func write<Rows: MigrationTransaction>(to account: inout SubjectRecords<Rows>) async throws(StorageError) {
    try await account.write(change)
    try await account.remove(removed)
    for (id, records) in remembered.sorted(by: { $0.key < $1.key }) {
      try await account.rows.merged.change(records, of: id)
    }
    for (id, records) in setAside.sorted(by: { $0.key < $1.key }) {
      try await account.rows.setAside.insert(records, of: id)
    }
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
