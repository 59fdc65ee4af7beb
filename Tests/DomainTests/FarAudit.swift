import LatchkeyModel
import Storage

@testable import Domain

struct FarAudit<Near: AuditRows>: AuditRows {
  let near: Near
  let batch: Batch

  func lockEnd() async throws(StorageError) -> AuditEnd {
    await batch.load()
    return try await near.lockEnd()
  }

  func insert(_ events: [AuditEvent]) async throws(StorageError) { try await near.insert(events) }

  func events(after sequence: Int64, of subject: SubjectID?, limit: Int) async throws(StorageError) -> [AuditEvent] {
    await batch.load()
    return try await near.events(after: sequence, of: subject, limit: limit)
  }

  func events(of chain: Int64, after number: Int64, limit: Int) async throws(StorageError) -> [AuditEvent] {
    await batch.load()
    return try await near.events(of: chain, after: number, limit: limit)
  }

  func ends() async throws(StorageError) -> [AuditEnd] {
    await batch.load()
    return try await near.ends()
  }

  func unsealed(after sequence: Int64?) async throws(StorageError) -> [AuditEvent] {
    await batch.load()
    return try await near.unsealed(after: sequence)
  }

  func count(of kind: AuditNote.Kind) async throws(StorageError) -> Int {
    await batch.load()
    return try await near.count(of: kind)
  }

  func remove(of chain: Int64, through number: Int64) async throws(StorageError) {
    try await near.remove(of: chain, through: number)
  }

  func checkpoints() async throws(StorageError) -> [AuditCheckpoint] {
    await batch.load()
    return try await near.checkpoints()
  }

  func checkpoint(of chain: Int64) async throws(StorageError) -> AuditCheckpoint? {
    await batch.load()
    return try await near.checkpoint(of: chain)
  }

  func put(_ checkpoint: AuditCheckpoint, at now: Timestamp) async throws(StorageError) {
    try await near.put(checkpoint, at: now)
  }

  func removeCheckpoints(before time: Timestamp) async throws(StorageError) {
    try await near.removeCheckpoints(before: time)
  }
}
