import LatchkeyModel
import Storage

/// QR sessions in SQLite: one row each, exchanged by its version.
package final class SQLiteQRSessionStore: QRSessionStore {
  private let database: SQLiteDatabase

  /// `database` has the schema `QRSchema.current`.
  package init(database: SQLiteDatabase) {
    self.database = database
  }

  package func insert(_ session: QRSession) async throws(StorageError) {
    let values = QRSessionRow.values(of: session)
    _ = try await database.write { db throws(StorageError) in
      try db.execute(QRSessionRow.insert, values)
    }
  }

  package func exchange(
    _ before: QRSession,
    for session: QRSession,
    at now: Timestamp
  ) async throws(StorageError) -> Bool {
    let values = QRSessionRow.changingValues(of: session)
    let state = before.phase.state
    // A final state does not end by time; every other one has to be in time when the row is exchanged.
    let expiringAfter = state.isFinal ? Int64.min : now.millisecondsSinceEpoch
    return try await database.write { db throws(StorageError) in
      try db.execute(
        QRSessionRow.exchange,
        values + [
          .blob(before.id.bytes), .integer(before.version), .integer(state.rawValue), .integer(expiringAfter),
        ]
      ) == 1
    }
  }

  package func session(_ id: QRSessionID) async throws(StorageError) -> QRSession? {
    try await first(QRSessionRow.byID, id.bytes)
  }

  package func session(reference: Digest256) async throws(StorageError) -> QRSession? {
    try await first(QRSessionRow.byReference, reference.bytes)
  }

  package func session(userCode: Digest256) async throws(StorageError) -> QRSession? {
    try await first(QRSessionRow.byUserCode, userCode.bytes)
  }

  package func session(pollSecret: Digest256) async throws(StorageError) -> QRSession? {
    try await first(QRSessionRow.byPollSecret, pollSecret.bytes)
  }

  package func sessions(
    expiringAfter time: Timestamp,
    following id: QRSessionID?,
    limit: Int
  ) async throws(StorageError) -> [QRSession] {
    try await database.read { db throws(StorageError) in
      try db.all(
        QRSessionRow.page,
        .blob(id?.bytes ?? []),
        .integer(time.millisecondsSinceEpoch),
        .integer(limit),
        map: QRSessionRow.session
      )
    }
  }

  package func removeSessions(
    redeemedBefore: Timestamp,
    othersBefore: Timestamp,
    limit: Int
  ) async throws(StorageError) -> Int {
    try await database.write { db throws(StorageError) in
      try db.execute(
        QRSessionRow.remove,
        .integer(max(redeemedBefore, othersBefore).millisecondsSinceEpoch),
        .integer(QRSessionState.consumed.rawValue),
        .integer(redeemedBefore.millisecondsSinceEpoch),
        .integer(othersBefore.millisecondsSinceEpoch),
        .integer(limit)
      )
    }
  }

  private func first(_ sql: String, _ key: [UInt8]) async throws(StorageError) -> QRSession? {
    try await database.read { db throws(StorageError) in
      try db.first(sql, .blob(key), map: QRSessionRow.session)
    }
  }
}
