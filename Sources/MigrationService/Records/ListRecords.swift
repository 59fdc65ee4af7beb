import Domain
import GRPC
import LatchkeyModel
import LatchkeyProtos
import Storage

extension RecordHandlers {
  /// Newest first. A page ends early when its values become large; only an empty `next_page_token` says that it was the
  /// last. Records written between two pages appear when they are older than the page's end.
  package func listRecords(
    _ request: MigrationV1.ListRecordsRequest,
    context: ServerContext
  ) async throws(RPCError) -> MigrationV1.ListRecordsResponse {
    let subject = try context.callingSubject()
    let collection = try RequestFields.collection(request.collection, "collection")
    let count = try RequestFields.pageSize(request.pageSize)
    let position = try RequestFields.pagePlace(request.pageToken) { RecordPosition(pageToken: $0) }
    if request.pageToken.isEmpty { try await noteAccount(subject, context) }
    let page = try await core.look(
      ListRecords(in: collection, of: subject, beyond: position, count: count, bytes: Limits.pageBytes))
    return MigrationV1.ListRecordsResponse(
      records: page.records.map { MigrationV1.Record($0) },
      nextPageToken: page.hasMore ? page.records.last?.position.pageToken ?? "" : "")
  }
}
