import GRPC
import LatchkeyModel
import LatchkeyProtos
import Storage

extension RecordHandlers {
  /// Tells identity whether somebody owns anything.
  package func describeRecords(
    _ request: MigrationV1.DescribeRecordsRequest,
    context: ServerContext
  ) async throws(RPCError) -> MigrationV1.DescribeRecordsResponse {
    let subject = try RequestFields.subject(request.sub, "sub")
    let summary = try await core.stored { () throws(StorageError) in try await core.records.summary(of: subject) }
    return MigrationV1.DescribeRecordsResponse(records: Int64(summary.count), version: summary.version)
  }
}
