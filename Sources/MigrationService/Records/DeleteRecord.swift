import Domain
import GRPC
import LatchkeyModel
import LatchkeyProtos
import Storage

extension RecordHandlers {
  /// Deleting a record that is not there is no error: `deleted` is false.
  package func deleteRecord(
    _ request: MigrationV1.DeleteRecordRequest,
    context: ServerContext
  ) async throws(RPCError) -> MigrationV1.DeleteRecordResponse {
    let subject = try context.callingSubject()
    let name = RecordName(
      collection: try RequestFields.collection(request.collection, "collection"),
      key: try RequestFields.key(request.key, "key"))
    guard request.expectedRevision >= 0 else { throw .invalid("expected_revision", "must not be negative") }
    let revision = request.expectedRevision == 0 ? nil : request.expectedRevision
    let outcome = try await core.perform(DeleteRecord(name, revision: revision, of: subject))
    switch try outcome.value {
    case .deleted: return MigrationV1.DeleteRecordResponse(deleted: true)
    case .notFound: return MigrationV1.DeleteRecordResponse(deleted: false)
    case .revisionMismatch(let current): throw .revisionMismatch(current: current)
    }
  }
}
