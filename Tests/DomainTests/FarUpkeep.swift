import LatchkeyModel
import Storage

@testable import Domain

struct FarUpkeep<Near: UpkeepRows>: UpkeepRows {
  let near: Near
  let batch: Batch

  func lock(_ chore: String) async throws(StorageError) -> UpkeepClaim? {
    await batch.load()
    return try await near.lock(chore)
  }

  func put(_ claim: UpkeepClaim, _ chore: String) async throws(StorageError) { try await near.put(claim, chore) }

  func remove(_ chore: String) async throws(StorageError) { try await near.remove(chore) }
}
