import LatchkeyModel
import Storage

extension TakeStep {
  /// APPLY: merges the guest's next records, some hundreds in a transaction.
  func apply(
    _ stored: inout StoredMigration, after cursor: Migration.Cursor?, in rows: some MigrationTransaction
  ) async throws(StorageError) -> Bool {
    let migration = stored.migration
    var target = try await SubjectRecords(of: migration.target, in: rows)
    var (left, bytesLeft) = (Limits.applyRecords, Limits.applyBytes)
    var last = cursor
    var applied = 0
    var isLast = true
    for var report in try await rows.reports.all(of: id)
    where cursor.map({ report.collection >= $0.collection }) ?? true {
      let reached = report.collection == cursor?.collection ? cursor : nil
      guard left > 0 && bytesLeft > 0 else {
        isLast = false
        break
      }
      // What has begun in one order goes on in it, also when an earlier release began it.
      let isNewestFirst = reached.map { $0.updatedAt != nil } ?? (report.maximumRows != nil)
      let page = try await rows.records.pairs(
        report.collection, of: migration.guest, with: migration.target,
        in: isNewestFirst ? .newest(beyond: reached?.position) : .keys(after: reached?.key), count: left,
        bytes: bytesLeft)
      stored.keptBytes += try await merge(page.pairs, into: &target, &report)
      try await rows.reports.change(report, of: id)
      applied += page.pairs.count
      left -= page.pairs.count
      bytesLeft -= page.pairs.reduce(0) { $0 + $1.record.content.value.count }
      if let record = page.pairs.last?.record {
        last =
          isNewestFirst
          ? Migration.Cursor(collection: report.collection, position: record.position)
          : Migration.Cursor(after: record.name)
      }
      if page.hasMore {
        isLast = false
        break
      }
    }
    guard let last else {
      throw StorageError(.corrupt, operation: "apply", detail: "no record where some were counted")
    }
    try await target.finish()
    return stored.migration.recordsApplied(applied, through: last, isLast: isLast) != nil
  }

  /// Returns what is kept so that it can be taken back.
  private func merge<Rows: MigrationTransaction>(
    _ pairs: [RecordPair], into target: inout SubjectRecords<Rows>, _ report: inout CollectionReport
  ) async throws(StorageError) -> Int {
    let isAppending = report.policy == .append
    let taken = isAppending ? try await takenNames(pairs, in: target) : []
    var count = try await target.rows.counts.find(report.collection, of: target.subject)
    var position = target.takeRevisions(pairs.count)
    var change = RecordChange()
    var merged: [MergedRecord] = []
    merged.reserveCapacity(pairs.count)
    var setAside: [SetAsideRecord] = []
    // Where APPEND puts a record is a name that the guest may have as well, so what this chunk writes counts as held.
    var appended: [RecordName: (content: RecordContent, revision: Int64)] = [:]
    for pair in pairs {
      let record = pair.record
      var held = pair.other.map { (content: $0.content, revision: $0.revision) }
      var freeName: RecordName?
      if isAppending {
        held = appended[record.name] ?? held
        freeName = record.name.appended(by: id)
        if let name = freeName, taken.contains(name) || appended[name] != nil { freeName = nil }
      }
      let merge = RecordMerge(
        record.content, named: record.name, into: held, by: report.policy,
        hasRoom: report.maximumRows.map { count < $0 } ?? true, freeName: freeName)
      if merge.decision.outcome == .moved { count += 1 }
      merge.write(&change, at: position)
      if isAppending, let content = merge.decision.content { appended[merge.target] = (content, position) }
      if let reason = merge.decision.conflict {
        setAside.append(SetAsideRecord(name: record.name, content: record.content, reason: reason))
      }
      merged.append(merge.remembered(at: position))
      report.count(merge.decision.outcome)
      position += 1
    }
    try await target.rows.setAside.insert(setAside, of: id)
    try await target.rows.merged.insert(merged, of: id)
    try await target.write(change)
    return RecordBounds.cost(records: merged.count, bytes: merged.reduce(0) { $0 + $1.bytes })
  }

  /// Of the names to which APPEND may bring these records those that the account has.
  private func takenNames<Rows: MigrationTransaction>(
    _ pairs: [RecordPair], in target: SubjectRecords<Rows>
  ) async throws(StorageError) -> Set<RecordName> {
    // Beside those that meet the account's, those that may meet what this chunk appends.
    let meeting = pairs.filter { $0.other != nil || $0.record.name.key.unappended != nil }
    let names = meeting.compactMap { $0.record.name.appended(by: id) }
    let lengths = try await target.rows.records.lengths(of: names, of: target.subject)
    return Set(zip(names, lengths).filter { $1 != nil }.map(\.0))
  }
}
