import GRPC
import LatchkeyProtos

extension GrantHandlers {
  /// Tells another service which sessions have ended: all that matter still, then each as it ends (R14).
  package func watchRevocations(
    _ request: IdentityV1.WatchRevocationsRequest,
    responses: ResponseWriter<IdentityV1.WatchRevocationsResponse>,
    context: ServerContext
  ) async throws(RPCError) {
    // Otherwise the caller would be ready, and refuse every subject by the name of this cell.
    guard request.identityCell.isEmpty || request.identityCell == "\(cell)" else {
      throw RPCError(
        .failedPrecondition, "identity is of cell \(cell), and not of the one that the caller's identity.cell says",
        reason: "OTHER_CELL", info: [RPCError.KeyValue("cell", "\(cell)")])
    }
    let sessions = endedSessions
    guard let watch = sessions.watches.watch() else {
      throw RPCError(
        .resourceExhausted, "too many watches are open", reason: "TOO_MANY_WATCHES", retryAfter: .seconds(1))
    }
    defer { sessions.watches.leave(watch) }
    let retention = sessions.retention.components.seconds
    // From here on every end is seen by the watch.
    var rest = Array(sessions.all)[...]
    repeat {
      let batch = rest.prefix(Limits.sessionsPerRevocationMessage)
      rest = rest.dropFirst(batch.count)
      try await responses.write(
        IdentityV1.WatchRevocationsResponse(
          endedSids: batch.map(\.description), caughtUp: rest.isEmpty && sessions.isFresh, retentionSeconds: retention))
    } while !rest.isEmpty
    for await batch in watch.batches {
      try await responses.write(
        IdentityV1.WatchRevocationsResponse(
          endedSids: batch.map(\.description), caughtUp: sessions.isFresh, retentionSeconds: retention))
    }
    throw RPCError(.unavailable, "the watch has ended; watch again")
  }
}
