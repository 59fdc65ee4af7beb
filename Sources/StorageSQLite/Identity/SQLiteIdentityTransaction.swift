import Storage

/// A transaction on the writer's or a reader's connection, for the time that one operation runs.
struct SQLiteIdentityTransaction: IdentityTransaction {
  let db: SQLiteConnection

  var isShared: Bool { false }

  var subjects: SQLiteSubjects { SQLiteSubjects(db: db) }
  var devices: SQLiteDevices { SQLiteDevices(db: db) }
  var sessions: SQLiteSessions { SQLiteSessions(db: db) }
  var identities: SQLiteIdentities { SQLiteIdentities(db: db) }
  var challenges: SQLiteChallenges { SQLiteChallenges(db: db) }
  var codes: SQLiteCodes { SQLiteCodes(db: db) }
  var attempts: SQLiteAttempts { SQLiteAttempts(db: db) }
  var unlocks: SQLiteUnlocks { SQLiteUnlocks(db: db) }
  var tickets: SQLiteTickets { SQLiteTickets(db: db) }
  var lineage: SQLiteLineage { SQLiteLineage(db: db) }
  var merges: SQLiteMerges { SQLiteMerges(db: db) }
  var mergedGuests: SQLiteMergedGuests { SQLiteMergedGuests(db: db) }
  var sources: SQLiteSources { SQLiteSources(db: db) }
  var replays: SQLiteReplays { SQLiteReplays(db: db) }
  var transfers: SQLiteTransfers { SQLiteTransfers(db: db) }
  var grants: SQLiteGrants { SQLiteGrants(db: db) }
  var guides: SQLiteGuides { SQLiteGuides(db: db) }
  var purges: SQLitePurges { SQLitePurges(db: db) }
  var notices: SQLiteNotices { SQLiteNotices(db: db) }
  var upkeep: SQLiteUpkeep { SQLiteUpkeep(db: db) }
  var audit: SQLiteAudit { SQLiteAudit(db: db) }
}
