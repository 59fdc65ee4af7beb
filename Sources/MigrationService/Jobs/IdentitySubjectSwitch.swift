import GRPC
import LatchkeyModel
import LatchkeyProtos

/// Asks the identity service.
package struct IdentitySubjectSwitch: SubjectSwitch {
  private let client: IdentityV1.GrantServiceClient
  private let options = CallOptions(timeout: Limits.switchPatience)

  /// `channel` carries the credential that services share.
  package init(channel: any RPCChannel) {
    client = IdentityV1.GrantServiceClient(channel: channel)
  }

  package func complete(_ migration: Migration) async throws(RPCError) {
    _ = try await client.completeMigration(
      IdentityV1.CompleteMigrationRequest(
        migrationID: migration.id.description,
        guestSub: migration.guest.description,
        targetSub: migration.target.description),
      options: options)
  }

  package func restore(_ migration: Migration) async throws(RPCError) {
    _ = try await client.restoreGuest(
      IdentityV1.RestoreGuestRequest(
        migrationID: migration.id.description,
        guestSub: migration.guest.description,
        targetSub: migration.target.description),
      options: options)
  }

  package func fail(_ migration: Migration, startedWith key: String, reason: String) async throws(RPCError) {
    _ = try await client.failMigration(
      IdentityV1.FailMigrationRequest(
        migrationID: migration.id.description,
        guestSub: migration.guest.description,
        targetSub: migration.target.description,
        reason: reason,
        idempotencyKey: key),
      options: options)
  }
}
