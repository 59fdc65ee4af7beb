import LatchkeyModel

/// Who does what one instance at a time does, by the name of the chore.
package protocol UpkeepRows {
  func lock(_ chore: String) async throws(StorageError) -> UpkeepClaim?

  func put(_ claim: UpkeepClaim, _ chore: String) async throws(StorageError)

  func remove(_ chore: String) async throws(StorageError)
}

/// Who does a chore, and until when nobody else begins it.
package struct UpkeepClaim: Sendable, Equatable {
  package var holder: OpaqueIDValue
  package var until: Timestamp

  package init(holder: OpaqueIDValue, until: Timestamp) {
    self.holder = holder
    self.until = until
  }
}
