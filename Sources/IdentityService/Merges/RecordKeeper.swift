import GRPC
import LatchkeyModel
import LatchkeyProtos

/// What identity asks of the record store.
package struct RecordKeeper: Sendable {
  private let client: MigrationV1.RecordServiceClient
  private let tokens: TokenIssuer
  private let clock: any WallClock

  /// - Parameter channel: to the migrator, carrying the service credential.
  package init(channel: any RPCChannel, tokens: TokenIssuer, clock: any WallClock) {
    client = MigrationV1.RecordServiceClient(channel: channel)
    self.tokens = tokens
    self.clock = clock
  }

  /// Hands out all records of the session's subject, page by page. Returns how many, and a version that they have at
  /// least.
  func export(
    of session: Session, _ take: ([MigrationV1.Record]) async throws(RPCError) -> Void
  ) async throws(RPCError) -> (count: Int64, version: Int64) {
    let collections = try await client.listCollections(
      MigrationV1.ListCollectionsRequest(), options: try options(session))
    var count: Int64 = 0
    for collection in collections.collections {
      var token = ""
      repeat {
        let page = try await client.listRecords(
          MigrationV1.ListRecordsRequest(
            collection: collection.name, pageSize: Limits.exportPage, pageToken: token),
          options: try options(session)
        )
        if !page.records.isEmpty { try await take(page.records) }
        count += Int64(page.records.count)
        token = page.nextPageToken
      } while !token.isEmpty
    }
    return (count, collections.version)
  }

  struct Owned {
    let count: Int64
    let version: Int64
    /// There is hardly room for more of guests' records.
    let guestsAreFull: Bool
  }

  func describe(_ subject: SubjectID) async throws(RPCError) -> Owned {
    let answer = try await client.describeRecords(
      MigrationV1.DescribeRecordsRequest(sub: subject.description),
      options: CallOptions(timeout: Limits.migratorPatience))
    return Owned(count: answer.records, version: answer.version, guestsAreFull: answer.guestsFull)
  }

  func purge(_ subject: SubjectID) async throws(RPCError) {
    _ = try await client.purgeRecords(
      MigrationV1.PurgeRecordsRequest(sub: subject.description), options: CallOptions(timeout: Limits.purgePatience))
  }

  /// A fresh token of the caller's for each page: an export may outlast one.
  private func options(_ session: Session) throws(RPCError) -> CallOptions {
    CallOptions(
      metadata: ["authorization": "Bearer \(try tokens.delegatedToken(of: session, at: clock.now()))"],
      timeout: Limits.exportPatience)
  }
}
