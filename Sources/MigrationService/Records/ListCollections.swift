import Domain
import GRPC
import LatchkeyProtos
import Storage

extension RecordHandlers {
  package func listCollections(
    _ request: MigrationV1.ListCollectionsRequest,
    context: ServerContext
  ) async throws(RPCError) -> MigrationV1.ListCollectionsResponse {
    let subject = try context.callingSubject()
    try await noteAccount(subject, context)
    let summary = try await core.look(CountRecords(of: subject))
    return MigrationV1.ListCollectionsResponse(
      collections: summary.collections.map { count in
        MigrationV1.CollectionSummary(
          name: count.collection.description,
          count: Int64(count.count),
          policy: MigrationV1.Policy(core.rules[count.collection].policy))
      },
      version: summary.version)
  }
}
