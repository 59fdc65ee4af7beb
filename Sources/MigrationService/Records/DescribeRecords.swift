import Domain
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
    let subject = try RequestFields.subject(request.sub, "sub", in: core.random.cell)
    let summary = try await core.look(CountRecords(of: subject))
    var response = MigrationV1.DescribeRecordsResponse(records: Int64(summary.count), version: summary.version)
    if let total = core.guestBounds.guestTotal {
      let held = try await core.look(CountGuestBytes())
      response.guestsFull = held / Limits.guestTotalTenths >= total / 10
    }
    return response
  }
}
