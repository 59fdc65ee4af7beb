import LatchkeyModel
import Storage

/// The tables `plans` and `plan_collections`.
struct PostgreSQLPlans: PlanRows {
  let db: PostgreSQLConnection

  private static let select = """
    SELECT id, guest, target, digest, guest_version, target_version, expires_at FROM plans WHERE id = $1
    """
  private static let selectLocked = "\(select) FOR UPDATE"

  private static func map(_ row: PostgreSQLRow) throws(StorageError) -> StoredPlan {
    StoredPlan(
      id: try row.id(0), guest: try row.id(1), target: try row.id(2), digest: row.blob(3),
      guestVersion: row.integer(4), targetVersion: row.integer(5), expiresAt: row.timestamp(6))
  }

  func find(_ id: PlanID) async throws(StorageError) -> StoredPlan? {
    try await db.first(Self.select, .id(id), map: Self.map)
  }

  // An id is random, and made by who inserts the plan: nobody waits for one that is not there.
  func lock(_ id: PlanID) async throws(StorageError) -> StoredPlan? {
    try await db.first(Self.selectLocked, .id(id), map: Self.map)
  }

  private static let selectRules = "SELECT name, policy, maximum_rows FROM plan_collections WHERE plan = $1"

  func rules(of id: PlanID) async throws(StorageError) -> [CollectionName: CollectionRules.Rule] {
    let rules = try await db.all(Self.selectRules, .id(id)) { row throws(StorageError) in
      (
        try row.collection(0),
        CollectionRules.Rule(policy: try row.named(1), maximumRows: row.optionalInteger(2).map { Int($0) })
      )
    }
    return Dictionary(uniqueKeysWithValues: rules)
  }

  private static let insert = """
    INSERT INTO plans (id, guest, target, digest, guest_version, target_version, expires_at)
    VALUES ($1, $2, $3, $4, $5, $6, $7)
    """
  private static let insertRules = """
    INSERT INTO plan_collections (plan, name, policy, maximum_rows)
    SELECT $1, name, policy, nullif(maximum_rows, -1)
    FROM unnest($2::text[], $3::text[], $4::bigint[]) AS rule (name, policy, maximum_rows)
    """

  func insert(_ plan: StoredPlan, rules: [CollectionName: CollectionRules.Rule]) async throws(StorageError) {
    try await db.execute(
      Self.insert, .id(plan.id), .id(plan.guest), .id(plan.target), .blob(plan.digest), .integer(plan.guestVersion),
      .integer(plan.targetVersion), .time(plan.expiresAt))
    if rules.isEmpty { return }
    let rules = Array(rules)
    try await db.execute(
      Self.insertRules, .id(plan.id), .texts(rules.map(\.key.description)),
      .texts(rules.map(\.value.policy.rawValue)),
      .naturals(rules.map { $0.value.maximumRows.map { Int64($0) } }))
  }

  private static let update = "UPDATE plans SET is_started = true WHERE id = $1"

  func changeStarted(_ id: PlanID) async throws(StorageError) { try await db.execute(Self.update, .id(id)) }

  private static let deleteWaiting = """
    DELETE FROM plans WHERE guest = $1 AND NOT is_started AND ($2::uuid IS NULL OR target = $2)
    """

  func removeWaiting(of guest: SubjectID, into target: SubjectID?) async throws(StorageError) {
    try await db.execute(Self.deleteWaiting, .id(guest), .optional(target?.bytes))
  }

  // Those of others, which somebody may be starting or replacing: they are left to whoever comes next.
  private static let deleteExpired = """
    DELETE FROM plans WHERE id = ANY (ARRAY(
      SELECT id FROM plans WHERE NOT is_started AND expires_at < $1 ORDER BY expires_at LIMIT $2
      FOR UPDATE SKIP LOCKED))
    """

  func removeWaiting(expiredBefore time: Timestamp, limit: Int) async throws(StorageError) {
    try await db.execute(Self.deleteExpired, .time(time), .integer(limit))
  }

  private static let deleteRules = "DELETE FROM plan_collections WHERE plan = $1"

  func removeRules(of id: PlanID) async throws(StorageError) { try await db.execute(Self.deleteRules, .id(id)) }
}
