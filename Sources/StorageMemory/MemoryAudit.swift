import LatchkeyModel
import Storage

/// One chain.
struct MemoryAudit: AuditRows {
  let tables: MemoryIdentityTables

  func lockEnd() -> AuditEnd {
    // The chain has no gaps, so that its end is found without looking for it.
    let beginning = checkpoint(of: 0)?.end ?? AuditEnd()
    let last = beginning.number + Int64(tables.events.rows.count)
    return tables.events[last].map { AuditEnd($0) } ?? beginning
  }

  func insert(_ events: [AuditEvent]) throws(StorageError) {
    for event in events { try tables.events.insert(event.number, event, "insert an audit event") }
  }

  func events(after sequence: Int64, of subject: SubjectID?, limit: Int) -> [AuditEvent] {
    let later = tables.events.rows.values.filter {
      $0.sequence > sequence && (subject == nil || $0.note.subject == subject)
    }
    return Array(later.sorted { $0.sequence < $1.sequence }.prefix(limit))
  }

  func events(of chain: Int64, after number: Int64, limit: Int) -> [AuditEvent] {
    chain == 0 ? events(after: number, of: nil, limit: limit) : []
  }

  func ends() -> [AuditEnd] { lockEnd().number == 0 ? [] : [lockEnd()] }

  func unsealed(after sequence: Int64?) -> [AuditEvent] { [] }

  func count(of kind: AuditNote.Kind) -> Int { tables.events.rows.values.filter { $0.note.kind == kind }.count }

  func remove(of chain: Int64, through number: Int64) {
    if chain == 0 { tables.events.remove { key, _ in key <= number } }
  }

  func checkpoints() -> [AuditCheckpoint] { Array(tables.checkpoints.rows.values) }

  func checkpoint(of chain: Int64) -> AuditCheckpoint? { chain == 0 ? tables.checkpoints[0] : nil }

  func put(_ checkpoint: AuditCheckpoint, at now: Timestamp) { tables.checkpoints[0] = checkpoint }

  func removeCheckpoints(before time: Timestamp) {}
}
