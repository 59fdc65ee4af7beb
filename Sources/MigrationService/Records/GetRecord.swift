import Domain
import GRPC
import LatchkeyModel
import LatchkeyProtos
import Storage

extension RecordHandlers {
  package func getRecord(
    _ request: MigrationV1.GetRecordRequest,
    context: ServerContext
  ) async throws(RPCError) -> MigrationV1.GetRecordResponse {
    let subject = try context.callingSubject()
    let name = RecordName(
      collection: try RequestFields.collection(request.collection, "collection"),
      key: try RequestFields.key(request.key, "key"))
    let record = try await core.look(FindRecord(name, of: subject))
    guard let record else { throw .recordNotFound }
    return MigrationV1.GetRecordResponse(record: MigrationV1.Record(record))
  }
}
