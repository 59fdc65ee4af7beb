import GRPC
import LatchkeyProtos
import Storage

extension RecordHandlers {
  package func listCollections(
    _ request: MigrationV1.ListCollectionsRequest,
    context: ServerContext
  ) async throws(RPCError) -> MigrationV1.ListCollectionsResponse {
    let subject = try context.callingSubject()
    // The version first: what is written meanwhile is newer than what it says.
    let (summary, counts) = try await core.stored { () throws(StorageError) in
      (try await core.records.summary(of: subject), try await core.records.collections(of: subject))
    }
    return MigrationV1.ListCollectionsResponse(
      collections: counts.map { count in
        MigrationV1.CollectionSummary(
          name: count.collection.description,
          count: Int64(count.count),
          policy: MigrationV1.Policy(core.rules[count.collection].policy))
      },
      version: summary.version)
  }
}
