import LatchkeyModel
import Storage

/// QR sessions in PostgreSQL: one row each, exchanged by its version.
package final class PostgreSQLQRSessionStore: QRSessionStore {
  let database: PostgreSQLDatabase

  /// `database` has the schema `PostgreSQLSchema.qr`.
  package init(database: PostgreSQLDatabase) {
    self.database = database
  }

  package var guesses: (any GuessCounts)? { PostgreSQLGuessCounts(database: database) }

  package func insert(_ session: QRSession) async throws(StorageError) {
    // Nobody else knows its id yet.
    _ = try await database.change(PostgreSQLQRSessionRow.insert, PostgreSQLQRSessionRow.values(of: session), about: [])
  }

  package func exchange(
    _ before: QRSession,
    for session: QRSession,
    at now: Timestamp
  ) async throws(StorageError) -> Bool {
    let question = PostgreSQLRowQuestion(
      statement: PostgreSQLQRSessionRow.exchange, key: before.keys.pollSecret.bytes,
      values: Self.exchangeValues(before, session, now))
    return try await database.change(question, about: Self.rows(of: before.id))
  }

  /// What is about one session, or the handing over of it, never comes in the midst of something else that is.
  static func rows(of id: QRSessionID) -> [String] { ["\(id)"] }

  static func exchangeValues(_ before: QRSession, _ session: QRSession, _ now: Timestamp) -> [PostgreSQLValue] {
    let state = before.phase.state
    // A final state does not end by time; every other one has to be in time when the row is exchanged.
    let expiringAfter = state.isFinal ? Int64.min : now.millisecondsSinceEpoch
    return PostgreSQLQRSessionRow.changingValues(of: session) + [
      .bytes(before.id.bytes), .integer(before.version), .integer(state.rawValue), .integer(expiringAfter),
    ]
  }

  package func session(_ id: QRSessionID) async throws(StorageError) -> QRSession? {
    try await first(PostgreSQLQRSessionRow.byID, id.bytes)
  }

  package func session(reference: Digest256) async throws(StorageError) -> QRSession? {
    try await first(PostgreSQLQRSessionRow.byReference, reference.bytes)
  }

  package func session(userCode: Digest256) async throws(StorageError) -> QRSession? {
    try await first(PostgreSQLQRSessionRow.byUserCode, userCode.bytes)
  }

  package func session(pollSecret: Digest256) async throws(StorageError) -> QRSession? {
    try await first(PostgreSQLQRSessionRow.byPollSecret, pollSecret.bytes)
  }

  package func sessions(
    expiringAfter time: Timestamp,
    following id: QRSessionID?,
    limit: Int
  ) async throws(StorageError) -> [QRSession] {
    let bounds: [PostgreSQLValue] = [.integer(time.millisecondsSinceEpoch), .integer(limit)]
    return try await database.read { db throws(StorageError) in
      guard let id else {
        return try await db.all(
          PostgreSQLQRSessionRow.firstPage, bounds, map: PostgreSQLQRSessionRow.session)
      }
      return try await db.all(
        PostgreSQLQRSessionRow.page, bounds + [.bytes(id.bytes)], map: PostgreSQLQRSessionRow.session)
    }
  }

  package func removeSessions(
    redeemedBefore: Timestamp,
    othersBefore: Timestamp,
    limit: Int
  ) async throws(StorageError) -> Int {
    try await database.write { db throws(StorageError) in
      try await db.change(
        PostgreSQLQRSessionRow.remove,
        .integer(max(redeemedBefore, othersBefore).millisecondsSinceEpoch),
        .integer(QRSessionState.consumed.rawValue),
        .integer(redeemedBefore.millisecondsSinceEpoch),
        .integer(othersBefore.millisecondsSinceEpoch),
        .integer(limit)
      )
    }
  }

  private func first(
    _ statement: PostgreSQLRowStatement, _ key: [UInt8]
  ) async throws(StorageError) -> QRSession? {
    let question = PostgreSQLRowQuestion(statement: statement, key: key, values: [.bytes(key)])
    return try await database.find(question, as: "find a QR session", map: PostgreSQLQRSessionRow.session)
  }
}
