import LatchkeyModel
import Storage

/// The table `documents`. Of each only the newest has its contents still.
struct PostgreSQLDocuments: SharedDocuments {
  let database: PostgreSQLDatabase

  static let statements = [
    """
    CREATE TABLE documents (
      name     text COLLATE "C" NOT NULL,
      -- 1 for the first of this name.
      number   bigint NOT NULL,
      -- SHA-256 of the contents.
      hash     bytea NOT NULL CHECK (length(hash) = 32),
      contents bytea,
      PRIMARY KEY (name, number)
    )
    """
  ]

  private static let select = "SELECT number, contents FROM documents WHERE name = $1 AND contents IS NOT NULL"

  func numbers() async throws(StorageError) -> [String: Int64] {
    try await database.read("find changed documents", isUrgent: true) { db throws(StorageError) in
      let rows = try await db.all("SELECT name, number FROM documents WHERE contents IS NOT NULL") { row in
        (row.text(0), row.integer(1))
      }
      return Dictionary(rows) { max($0, $1) }
    }
  }

  func find(_ name: String) async throws(StorageError) -> SharedDocument? {
    try await database.read("find a document", isUrgent: true) { db throws(StorageError) in
      try await db.first(Self.select, .text(name), map: Self.map)
    }
  }

  func change<Outcome: Sendable>(
    _ name: String, to contents: [UInt8], hash: [UInt8], record: AuditRecord?,
    if decide: @escaping @Sendable (_ current: SharedDocument?, _ wasThere: Bool) -> (isWanted: Bool, outcome: Outcome)
  ) async throws(StorageError) -> Outcome {
    try await database.write("change a document") { db throws(StorageError) in
      try await db.lock("documents", .text(name))
      let current = try await db.first(Self.select, .text(name), map: Self.map)
      let wasThere = try await db.first(
        "SELECT count(*) > 0 FROM documents WHERE name = $1 AND hash = $2", .text(name), .bytes(hash)
      ) { $0.bool(0) }
      let (isWanted, outcome) = decide(current, wasThere ?? false)
      guard isWanted else { return outcome }
      let highest = try await db.first(
        "SELECT COALESCE(max(number), 0) FROM documents WHERE name = $1", .text(name)
      ) { $0.integer(0) }
      let number = (highest ?? 0) + 1
      try await db.execute(
        "UPDATE documents SET contents = NULL WHERE name = $1 AND contents IS NOT NULL", .text(name))
      try await db.execute(
        "INSERT INTO documents (name, number, hash, contents) VALUES ($1, $2, $3, $4)",
        .text(name), .integer(number), .bytes(hash), .bytes(contents))
      try await db.execute(
        "DELETE FROM documents WHERE name = $1 AND number <= $2", .text(name),
        .integer(number - Limits.rememberedDocuments))
      if let record { try await record.chain.append([record.note], to: PostgreSQLAudit(db: db)) }
      return outcome
    }
  }

  private static func map(_ row: PostgreSQLRow) -> SharedDocument {
    SharedDocument(number: row.integer(0), contents: row.bytes(1))
  }
}
