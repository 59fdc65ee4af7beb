import LatchkeyModel
import Storage

@testable import Domain

struct FarNotices<Near: NoticeRows>: NoticeRows {
  let near: Near
  let batch: Batch

  func lockDue(on channel: NoticeChannel, at now: Timestamp, limit: Int) async throws(StorageError) -> [OwnerNotice] {
    await batch.load()
    return try await near.lockDue(on: channel, at: now, limit: limit)
  }

  func insert(_ notice: OwnerNotice, dueAt: Timestamp) async throws(StorageError) {
    try await near.insert(notice, dueAt: dueAt)
  }

  func change(_ key: String, attempts: Int64, dueAt: Timestamp) async throws(StorageError) {
    try await near.change(key, attempts: attempts, dueAt: dueAt)
  }

  func remove(_ key: String) async throws(StorageError) { try await near.remove(key) }

  func remove(to recipient: AccountIdentifier, allBut count: Int) async throws(StorageError) -> Int {
    await batch.load()
    return try await near.remove(to: recipient, allBut: count)
  }

  func remove(before time: Timestamp, limit: Int) async throws(StorageError) -> Int {
    await batch.load()
    return try await near.remove(before: time, limit: limit)
  }
}
