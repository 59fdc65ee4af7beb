import LatchkeyModel
import Storage

/// Forgets a bounded number of sessions with what codes granted them, of failed tries and of merges from before a time, and
/// of challenges, tickets and transfers that have expired. Says how many rows that were.
///
/// What is not here is forgotten elsewhere or lasts: one-time codes and sign-ins to repeat go as new ones come, audit events
/// and guests by their retention, purges when they are done, notices when they are delivered or too old, and the rest with
/// whom it belongs to.
package struct Forget: IdentityCommand {
  package static let name = "forget what is over"

  package var before: Timestamp
  package var now: Timestamp
  package var limit: Int

  package init(endedBefore before: Timestamp, at now: Timestamp, limit: Int) {
    self.before = before
    self.now = now
    self.limit = limit
  }

  package func decide(
    in rows: some IdentityTransaction, noting changes: inout SessionChanges
  ) async throws(StorageError) -> Int {
    var count = try await rows.sessions.remove(overBefore: before, limit: limit)
    // Codes that were revoked before they granted anything; the code itself is over within the hour.
    count += try await rows.grants.remove(emptyBefore: before, limit: limit)
    count += try await rows.challenges.remove(expiredBefore: now, limit: limit)
    count += try await rows.tickets.remove(expiredBefore: now, limit: limit)
    count += try await rows.transfers.remove(expiredBefore: now, limit: limit)
    count += try await rows.attempts.remove(lastBefore: before, limit: limit)
    // The audit log tells of merges for as long as it is kept.
    count += try await rows.merges.remove(overBefore: before, limit: limit)
    count += try await rows.mergedGuests.remove(before: before, limit: limit)
    return count
  }
}

/// The sessions that ended at a time or later.
package struct SessionsEnded: IdentityOperation {
  package static let name = "find ended sessions"

  package var time: Timestamp

  package init(since time: Timestamp) {
    self.time = time
  }

  package func run(in rows: some IdentityTransaction) async throws(StorageError) -> [EndedSession] {
    try await rows.sessions.ended(since: time)
  }
}
