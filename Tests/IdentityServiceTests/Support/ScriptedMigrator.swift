import GRPC
import LatchkeyProtos
import Synchronization

/// A migrator that a test scripts: it remembers what it was asked, and fails when told to.
final class ScriptedMigrator: RPCChannel {
  struct State {
    var isUp = true
    /// Answers nothing, until the caller goes away; and how often so.
    var isSilent = false
    var unanswered = 0
    var onDescription: @Sendable () -> Void = {}
    var failPlans: [RPCError] = []
    var failStarts: [RPCError] = []
    var plans: [MigrationV1.PlanMigrationRequest] = []
    var starts: [MigrationV1.StartMigrationRequest] = []
    var migrations: [String: String] = [:]
    var credentials: Set<String> = []
    /// Of the only subject that owns any.
    var records: [MigrationV1.Record] = []
    var recordsVersion: Int64 = 7
    /// There is hardly room for more, until so many guests were purged; nil for never.
    var guestsFullUntilPurged: Int?
    var failPurges: [RPCError] = []
    var purged: [String] = []
  }

  let state = Mutex(State())

  func unary<Request: RPCMessage, Response: RPCMessage>(
    _ method: RPCMethod, _ request: Request, options: CallOptions
  ) async throws(RPCError) -> Response {
    let isSilent = state.withLock { state in
      if state.isSilent { state.unanswered += 1 }
      return state.isSilent
    }
    if isSilent {
      while !Task.isCancelled { try? await Task.sleep(for: .seconds(60)) }
      throw RPCError(.cancelled, "the caller went away")
    }
    let answer = try answer(request, options)
    guard let response = answer as? Response else { throw RPCError(.unimplemented, method.path) }
    return response
  }

  private func answer(_ request: any RPCMessage, _ options: CallOptions) throws(RPCError) -> (any RPCMessage)? {
    let result: Result<(any RPCMessage)?, RPCError> = state.withLock { state in
      guard state.isUp else { return .failure(RPCError(.unavailable, "the migrator is down")) }
      if let credential = options.metadata["authorization"] { state.credentials.insert(credential) }
      switch request {
      case let request as MigrationV1.PlanMigrationRequest:
        if !state.failPlans.isEmpty { return .failure(state.failPlans.removeFirst()) }
        state.plans.append(request)
        return .success(
          MigrationV1.PlanMigrationResponse(planID: "plan-\(state.plans.count)", digest: "digest-\(state.plans.count)"))
      case let request as MigrationV1.StartMigrationRequest:
        state.starts.append(request)
        if !state.failStarts.isEmpty { return .failure(state.failStarts.removeFirst()) }
        let id = state.migrations[request.idempotencyKey] ?? "migration-\(state.migrations.count + 1)"
        state.migrations[request.idempotencyKey] = id
        return .success(MigrationV1.StartMigrationResponse(migrationID: id))
      case is MigrationV1.ListCollectionsRequest:
        return .success(
          MigrationV1.ListCollectionsResponse(
            collections: [MigrationV1.CollectionSummary(name: "cart", count: 3)], version: state.recordsVersion))
      case let request as MigrationV1.ListRecordsRequest:
        // Two on a page; a page's token is how many came before.
        let before = Int(request.pageToken) ?? 0
        let rest = state.records.dropFirst(before)
        return .success(
          MigrationV1.ListRecordsResponse(
            records: Array(rest.prefix(2)), nextPageToken: rest.count > 2 ? "\(before + 2)" : ""))
      case is MigrationV1.DescribeRecordsRequest:
        state.onDescription()
        return .success(
          MigrationV1.DescribeRecordsResponse(
            records: Int64(state.records.count), version: state.recordsVersion,
            guestsFull: state.guestsFullUntilPurged.map { state.purged.count < $0 } ?? false))
      case let request as MigrationV1.PurgeRecordsRequest:
        if !state.failPurges.isEmpty { return .failure(state.failPurges.removeFirst()) }
        state.purged.append(request.sub)
        return .success(MigrationV1.PurgeRecordsResponse(deleted: Int64(state.records.count)))
      default: return .success(nil)
      }
    }
    return try result.get()
  }

  func serverStreaming<Request: RPCMessage, Response: RPCMessage, Result: Sendable>(
    _ method: RPCMethod, _ request: Request, options: CallOptions,
    _ body: (ResponseStream<Response>) async throws(RPCError) -> Result
  ) async throws(RPCError) -> Result {
    throw RPCError(.unimplemented, method.path)
  }

  func clientStreaming<Request: RPCMessage, Response: RPCMessage>(
    _ method: RPCMethod, options: CallOptions,
    _ send: @escaping @Sendable (RequestWriter<Request>) async throws(RPCError) -> Void
  ) async throws(RPCError) -> Response {
    throw RPCError(.unimplemented, method.path)
  }

  func bidirectional<Request: RPCMessage, Response: RPCMessage, Result: Sendable>(
    _ method: RPCMethod, options: CallOptions,
    _ send: @escaping @Sendable (RequestWriter<Request>) async throws(RPCError) -> Void,
    _ body: (ResponseStream<Response>) async throws(RPCError) -> Result
  ) async throws(RPCError) -> Result {
    throw RPCError(.unimplemented, method.path)
  }
}
