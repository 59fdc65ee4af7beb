import GRPC
import LatchkeyModel
import LatchkeyProtos
import ServiceRuntime
import Storage

extension GuideHandlers {
  /// Tells the caller's progress now and after each change, until the session that watches ends.
  package func watchGuide(
    _ request: IdentityV1.WatchGuideRequest,
    responses: ResponseWriter<IdentityV1.WatchGuideResponse>,
    context: ServerContext
  ) async throws(RPCError) {
    let subject = try context.callerSubject()
    let caller = try context.callerSession()
    let id = try guide(request.guideID).id
    guard let watch = guideWatches.watch(id, by: try context.watchHolder()) else {
      throw .watchEnded(isStopping: guideWatches.isDraining)
    }
    defer { guideWatches.leave(watch) }
    // From here on every end is seen by the watch, so one that came before is all that must be looked up.
    guard !endedSessions.hasEnded(caller) else { throw .sessionRevoked }
    var told: IdentityV1.WatchGuideResponse?
    for await _ in watch.changes {
      let guide = try guide(request.guideID)
      let stored = try await progress(of: subject, in: id)
      let now = IdentityV1.WatchGuideResponse(
        version: guide.version, progress: Self.message(stored, in: guide, given: guide.steps))
      guard now != told else { continue }
      told = now
      try await responses.write(now)
    }
    if endedSessions.hasEnded(caller) { throw .sessionRevoked }
    throw .watchEnded(isStopping: guideWatches.isDraining)
  }
}
