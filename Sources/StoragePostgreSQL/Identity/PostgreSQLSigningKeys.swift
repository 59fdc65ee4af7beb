import LatchkeyModel
import Storage

/// The table `signing_keys`. Whoever changes it holds one lock, so that instances that make a key at the same time make one.
struct PostgreSQLSigningKeys: SharedSigningKeys {
  let database: PostgreSQLDatabase

  static let statements = [
    """
    CREATE TABLE signing_keys (
      -- Its thumbprint (RFC 7638).
      kid        text COLLATE "C" NOT NULL PRIMARY KEY,
      not_before bigint NOT NULL,
      -- AES-256-GCM of the private key; of its name and time as well, so that neither can be changed here.
      sealed     bytea NOT NULL
    )
    """
  ]

  private static let selectMark = """
    SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint, \(PostgreSQLConnection.thisServer)
    """
  private static let selectAll = "SELECT kid, not_before, sealed FROM signing_keys ORDER BY not_before, kid"

  func all() async throws(StorageError) -> SealedSigningKeys {
    try await database.read("find the signing keys", isUrgent: true) { db throws(StorageError) in
      try await Self.all(db)
    }
  }

  func change<Outcome: Sendable>(
    _ decide: @escaping @Sendable (SealedSigningKeys) -> (change: SealedSigningKeyChange, outcome: Outcome)
  ) async throws(StorageError) -> (outcome: Outcome, keys: SealedSigningKeys) {
    try await database.write("change the signing keys", isUrgent: true) { db throws(StorageError) in
      try await db.lock("signing_keys")
      let (change, outcome) = decide(try await Self.all(db))
      try await db.execute("DELETE FROM signing_keys WHERE kid = ANY ($1::text[])", .texts(change.gone))
      for key in change.new {
        try await db.execute(
          "INSERT INTO signing_keys (kid, not_before, sealed) VALUES ($1, $2, $3)",
          .text(key.id), .time(key.notBefore), .bytes(key.sealed))
      }
      return (outcome, try await Self.all(db))
    }
  }

  private static func all(_ db: PostgreSQLConnection) async throws(StorageError) -> SealedSigningKeys {
    guard let (time, server) = try await db.first(selectMark, map: { ($0.timestamp(0), $0.text(1)) }) else {
      throw StorageError(.corrupt, operation: "find the signing keys", detail: "no time")
    }
    let keys = try await db.all(selectAll) { row in
      SealedSigningKey(id: row.text(0), notBefore: row.timestamp(1), sealed: row.bytes(2))
    }
    return SealedSigningKeys(keys: keys, time: time, server: server)
  }
}
