import Domain
import GRPC
import LatchkeyModel
import LatchkeyProtos
import Storage

extension MigrationHandlers {
  /// The decision and its effect are one transaction. Deciding again what is decided is no error: `resolved` is false.
  package func resolveConflict(
    _ request: MigrationV1.ResolveConflictRequest,
    context: ServerContext
  ) async throws(RPCError) -> MigrationV1.ResolveConflictResponse {
    let id = try await readableMigration(request.migrationID, by: context.caller).migration.id
    let name = RecordName(
      collection: try RequestFields.collection(request.collection, "collection"),
      key: try RequestFields.key(request.key, "key"))
    guard let policy = MigrationPolicy(request.policy), policy != .ask else {
      throw .invalid("policy", "must be a policy that decides")
    }
    guard request.expectedRevision >= 0 else { throw .invalid("expected_revision", "must not be negative") }
    let revision = request.expectedRevision == 0 ? nil : request.expectedRevision
    let outcome = try await core.perform(ResolveConflict(name, of: id, by: policy, revision: revision))
    switch outcome {
    case .resolved: return MigrationV1.ResolveConflictResponse(resolved: true)
    case .notFound: return MigrationV1.ResolveConflictResponse(resolved: false)
    case .revisionMismatch(let current): throw .revisionMismatch(current: current)
    case .remains(let reason): throw .conflictRemains(reason)
    case .notDone: throw .migrationNotDone
    case .deleted: throw .subjectDeleted
    case .unknown: throw .migrationNotFound
    }
  }
}
