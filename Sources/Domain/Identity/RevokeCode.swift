import LatchkeyModel
import Storage

/// Ends what was issued from a QR session, and lets nothing be issued from it later. Says how many sessions ended.
package struct RevokeCode: IdentityCommand {
  package static let name = "revoke what a code granted"

  package var qrSession: String
  package var now: Timestamp

  package init(_ qrSession: String, at now: Timestamp) {
    self.qrSession = qrSession
    self.now = now
  }

  package func decide(
    in rows: some IdentityTransaction, noting changes: inout SessionChanges
  ) async throws(StorageError) -> Int {
    let grant = try await rows.grants.lock(qrSession)
    var owners = [try await rows.unlocks.bound(by: qrSession)?.account]
    if let session = grant?.session { owners.append(try await rows.sessions.find(session)?.subject) }
    try await rows.lock(accounts: owners)
    if let bound = try await rows.unlocks.bound(by: qrSession) {
      // With all that its key has begun since.
      try await changes.removeUnlocks(of: bound.account, onDevice: bound.deviceKey, at: now, in: rows)
      changes.ended += try await rows.sessions.end(
        of: bound.account, onDevice: bound.deviceKey, because: .qrRevoked, at: now)
    }
    try await rows.grants.revoke(qrSession, at: now)
    guard let grant, let id = grant.session else { return changes.ended.count }
    try await changes.end(id, because: .qrRevoked, at: now, in: rows)
    if let session = try await rows.sessions.find(id) {
      try await changes.endDescendants(
        of: .code(qrSession), of: session.subject, because: .qrRevoked, at: now, in: rows)
      if session.isGuest { try await giveBack(session, grantedAt: grant.createdAt, in: rows) }
    }
    return changes.ended.count
  }

  /// A guest that moved by a code that was revoked belongs to its old device again, which finds it by its key. Its session
  /// there ended at the moment of the grant, by which the device is found.
  private func giveBack(
    _ moved: Session, grantedAt time: Timestamp, in rows: some IdentityTransaction
  ) async throws(StorageError) {
    guard let key = moved.device.keyThumbprint,
      let old = try await rows.sessions.device(of: moved.subject, leftAt: time, because: .transferred), old != key,
      let device = try await rows.devices.lock(old), device.guest == nil
    else { return }
    try await rows.devices.removeGuest(moved.subject, from: key)
    try await rows.devices.change(old, guest: moved.subject)
  }
}
