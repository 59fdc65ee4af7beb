import GRPC
import LatchkeyModel

/// Carries out the SWITCH step where identities live: the guest's sessions end and its subject resolves to the account.
///
/// Must be idempotent: the same migration may ask again when the answer was lost.
package protocol SubjectSwitch: Sendable {
  func complete(_ migration: Migration) async throws(RPCError)

  /// Makes the guest of a migration that was done one again. Idempotent.
  func restore(_ migration: Migration) async throws(RPCError)

  /// Says that the migration, which was started with `key`, will not come about, so that the guest is a guest like any other
  /// again. Idempotent.
  func fail(_ migration: Migration, startedWith key: String, reason: String) async throws(RPCError)
}
