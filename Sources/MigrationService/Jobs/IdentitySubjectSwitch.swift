import GRPC
import LatchkeyModel
import LatchkeyProtos

/// Asks the identity service, with the credential that services share.
package struct IdentitySubjectSwitch: SubjectSwitch {
  private let client: IdentityV1.GrantServiceClient
  private let options: CallOptions

  package init(channel: any RPCChannel, serviceCredential: Metadata) {
    client = IdentityV1.GrantServiceClient(channel: channel)
    options = CallOptions(metadata: serviceCredential, timeout: Limits.switchPatience)
  }

  package func complete(_ migration: Migration) async throws(RPCError) {
    _ = try await client.completeMigration(
      IdentityV1.CompleteMigrationRequest(
        migrationID: migration.id.description,
        guestSub: migration.guest.description,
        targetSub: migration.target.description),
      options: options)
  }
}
