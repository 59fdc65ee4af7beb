import LatchkeyModel
import Storage

/// The tables `plans` and `plan_collections`.
struct SQLitePlans: PlanRows {
  let db: SQLiteConnection

  private static let select = """
    SELECT id, guest, target, digest, guest_version, target_version, expires_at FROM plans WHERE id = ?
    """

  func find(_ id: PlanID) throws(StorageError) -> StoredPlan? {
    try db.first(Self.select, .id(id)) { row throws(StorageError) in
      StoredPlan(
        id: try row.opaqueID(0), guest: try row.opaqueID(1), target: try row.opaqueID(2), digest: row.blob(3),
        guestVersion: row.integer(4), targetVersion: row.integer(5), expiresAt: row.timestamp(6))
    }
  }

  func lock(_ id: PlanID) throws(StorageError) -> StoredPlan? { try find(id) }

  private static let selectRules = "SELECT name, policy, maximum_rows FROM plan_collections WHERE plan = ?"

  func rules(of id: PlanID) throws(StorageError) -> [CollectionName: CollectionRules.Rule] {
    var rules: [CollectionName: CollectionRules.Rule] = [:]
    try db.forEach(Self.selectRules, .id(id)) { row throws(StorageError) in
      rules[try row.collection(0)] = CollectionRules.Rule(
        policy: try row.named(1), maximumRows: row.optionalInteger(2).map { Int($0) })
      return true
    }
    return rules
  }

  private static let insert = """
    INSERT INTO plans (id, guest, target, digest, guest_version, target_version, expires_at)
    VALUES (?, ?, ?, ?, ?, ?, ?)
    """
  private static let insertRule = "INSERT INTO plan_collections (plan, name, policy, maximum_rows) VALUES (?, ?, ?, ?)"

  func insert(_ plan: StoredPlan, rules: [CollectionName: CollectionRules.Rule]) throws(StorageError) {
    try db.execute(
      Self.insert, .id(plan.id), .id(plan.guest), .id(plan.target), .blob(plan.digest), .integer(plan.guestVersion),
      .integer(plan.targetVersion), .time(plan.expiresAt))
    try db.execute(Self.insertRule, forEach: Array(rules)) { name, rule in
      [.id(plan.id), .name(name), .text(rule.policy.rawValue), .optional(rule.maximumRows.map { Int64($0) })]
    }
  }

  private static let update = "UPDATE plans SET is_started = 1 WHERE id = ?"

  func changeStarted(_ id: PlanID) throws(StorageError) { try db.execute(Self.update, .id(id)) }

  private static let deleteWaiting = """
    DELETE FROM plans WHERE guest = ?1 AND is_started = 0 AND (?2 IS NULL OR target = ?2)
    """

  func removeWaiting(of guest: SubjectID, into target: SubjectID?) throws(StorageError) {
    try db.execute(Self.deleteWaiting, .id(guest), .optional(target?.bytes))
  }

  private static let deleteExpired = """
    DELETE FROM plans WHERE is_started = 0 AND id IN (
      SELECT id FROM plans WHERE is_started = 0 AND expires_at < ? ORDER BY expires_at LIMIT ?)
    """

  func removeWaiting(expiredBefore time: Timestamp, limit: Int) throws(StorageError) {
    try db.execute(Self.deleteExpired, .time(time), .integer(limit))
  }

  private static let deleteRules = "DELETE FROM plan_collections WHERE plan = ?"

  func removeRules(of id: PlanID) throws(StorageError) { try db.execute(Self.deleteRules, .id(id)) }
}
