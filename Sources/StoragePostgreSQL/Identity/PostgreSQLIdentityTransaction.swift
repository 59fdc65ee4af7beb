import Storage

/// A transaction on the writer's or a reader's connection, for the time that one operation runs.
struct PostgreSQLIdentityTransaction: IdentityTransaction {
  let db: PostgreSQLConnection

  var isShared: Bool { true }

  var subjects: PostgreSQLSubjects { PostgreSQLSubjects(db: db) }
  var devices: PostgreSQLDevices { PostgreSQLDevices(db: db) }
  var sessions: PostgreSQLSessions { PostgreSQLSessions(db: db) }
  var identities: PostgreSQLIdentities { PostgreSQLIdentities(db: db) }
  var challenges: PostgreSQLChallenges { PostgreSQLChallenges(db: db) }
  var codes: PostgreSQLCodes { PostgreSQLCodes(db: db) }
  var attempts: PostgreSQLAttempts { PostgreSQLAttempts(db: db) }
  var unlocks: PostgreSQLUnlocks { PostgreSQLUnlocks(db: db) }
  var tickets: PostgreSQLTickets { PostgreSQLTickets(db: db) }
  var lineage: PostgreSQLLineage { PostgreSQLLineage(db: db) }
  var merges: PostgreSQLMerges { PostgreSQLMerges(db: db) }
  var mergedGuests: PostgreSQLMergedGuests { PostgreSQLMergedGuests(db: db) }
  var sources: PostgreSQLSources { PostgreSQLSources(db: db) }
  var replays: PostgreSQLReplays { PostgreSQLReplays(db: db) }
  var transfers: PostgreSQLTransfers { PostgreSQLTransfers(db: db) }
  var grants: PostgreSQLGrants { PostgreSQLGrants(db: db) }
  var guides: PostgreSQLGuides { PostgreSQLGuides(db: db) }
  var purges: PostgreSQLPurges { PostgreSQLPurges(db: db) }
  var notices: PostgreSQLOwnerNotices { PostgreSQLOwnerNotices(db: db) }
  var upkeep: PostgreSQLUpkeep { PostgreSQLUpkeep(db: db) }
  var audit: PostgreSQLAudit { PostgreSQLAudit(db: db) }

  func tell(_ news: SessionChanges) async throws(StorageError) { try await PostgreSQLNews(db: db).append(news) }
}
