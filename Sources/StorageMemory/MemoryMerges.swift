import LatchkeyModel
import Storage

struct MemoryMerges: MergeRows {
  let tables: MemoryIdentityTables

  func find(_ id: MergeID) -> PendingMerge? { tables.merges[id]?.merge }

  func lock(_ id: MergeID) -> PendingMerge? { find(id) }

  func open(of guest: SubjectID) -> PendingMerge? {
    tables.merges.rows.values.first { $0.merge.guest == guest && $0.merge.state.isOpen }?.merge
  }

  func due(at now: Timestamp, limit: Int) -> [PendingMerge] {
    let due = tables.merges.rows.values.filter { $0.merge.state == .wanted && $0.dueAt <= now }
    return due.sorted { $0.dueAt < $1.dueAt }.prefix(limit).map(\.merge)
  }

  func lockDue(at now: Timestamp, limit: Int) -> [PendingMerge] { due(at: now, limit: limit) }

  func insert(_ merge: PendingMerge, dueAt: Timestamp, at now: Timestamp) throws(StorageError) {
    guard open(of: merge.guest) == nil else { throw StorageError(.constraint(.unique), operation: "insert a merge") }
    var merge = merge
    merge.createdAt = now
    try tables.merges.insert(
      merge.id, MemoryIdentityTables.MergeRow(merge: merge, dueAt: dueAt, changedAt: now), "insert a merge")
  }

  func changeSessions(of merge: PendingMerge, at now: Timestamp) {
    tables.merges.change(merge.id) { row in
      row.merge.targetSession = merge.targetSession
      row.merge.guestSession = merge.guestSession
      row.changedAt = now
    }
  }

  func change(_ id: MergeID, plan: PendingMerge.Plan?) { tables.merges.change(id) { $0.merge.plan = plan } }

  func change(_ merge: PendingMerge, at now: Timestamp) {
    tables.merges.change(merge.id) { row in
      row.merge.state = merge.state
      row.merge.migration = merge.migration
      row.merge.lastError = merge.lastError
      row.changedAt = now
    }
  }

  func change(_ merge: PendingMerge, dueAt: Timestamp) {
    tables.merges.change(merge.id) { row in
      row.merge.attempts = merge.attempts
      row.merge.lastError = merge.lastError
      row.dueAt = dueAt
    }
  }

  func remove(overBefore time: Timestamp, limit: Int) -> Int {
    tables.merges.removeOldest(before: time, limit: limit) { _, row in row.merge.state.isOpen ? nil : row.changedAt }
  }
}

struct MemoryMergedGuests: MergedGuestRows {
  let tables: MemoryIdentityTables

  func devices(of guest: SubjectID) -> [String] {
    tables.mergedGuests.rows.keys.filter { $0.guest == guest }.map(\.device).sorted()
  }

  func put(_ guest: SubjectID, onDevice keyThumbprint: String, at now: Timestamp) {
    tables.mergedGuests[MemoryIdentityTables.MergedGuestKey(guest: guest, device: keyThumbprint)] = now
  }

  func remove(of guest: SubjectID) { tables.mergedGuests.remove { key, _ in key.guest == guest } }

  func remove(before time: Timestamp, limit: Int) -> Int {
    tables.mergedGuests.removeOldest(before: time, limit: limit) { _, row in row }
  }

  func isRecalled(_ migration: String, of guest: SubjectID) -> Bool {
    tables.recalledMerges[MemoryIdentityTables.RecalledMergeKey(guest: guest, migration: migration)] != nil
  }

  func recall(_ migration: String, of guest: SubjectID, at now: Timestamp) {
    let key = MemoryIdentityTables.RecalledMergeKey(guest: guest, migration: migration)
    if tables.recalledMerges[key] == nil { tables.recalledMerges[key] = now }
  }

  func removeRecalls(of guest: SubjectID) { tables.recalledMerges.remove { key, _ in key.guest == guest } }
}
