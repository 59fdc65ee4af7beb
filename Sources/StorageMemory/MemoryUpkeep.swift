import LatchkeyModel
import Storage

struct MemoryUpkeep: UpkeepRows {
  let tables: MemoryIdentityTables

  func lock(_ chore: String) -> UpkeepClaim? { tables.upkeep[chore] }

  func put(_ claim: UpkeepClaim, _ chore: String) { tables.upkeep[chore] = claim }

  func remove(_ chore: String) { tables.upkeep[chore] = nil }
}
