import GRPC
import LatchkeyModel
import LatchkeyProtos
import ServiceRuntime
import Storage

extension SessionHandlers {
  /// Tells of the caller's sessions as they begin and end, until the session that watches ends.
  package func watchSessionEvents(
    _ request: IdentityV1.WatchSessionEventsRequest,
    responses: ResponseWriter<IdentityV1.WatchSessionEventsResponse>,
    context: ServerContext
  ) async throws(RPCError) {
    let caller = try context.callerSession()
    guard let watch = sessionEvents.watch(try context.watchHolder()) else {
      throw .watchEnded(isStopping: sessionEvents.isDraining)
    }
    defer { sessionEvents.leave(watch) }
    // From here on every end is seen by the watch, so one that came before is all that must be looked up.
    guard !endedSessions.hasEnded(caller) else { throw .sessionRevoked }
    try await responses.write(
      IdentityV1.WatchSessionEventsResponse(
        event: .watching, sid: caller.description, at: GoogleProtobuf.Timestamp(clock.now())))
    for await event in watch.events {
      // Who watches knows of its own session, however late its beginning is heard of.
      if case .started(let session) = event, session.id == caller { continue }
      guard let message = message(event, for: caller) else {
        throw RPCError(
          .unavailable, "events may be missing: list the sessions, and watch again",
          retryAfter: .milliseconds(.random(in: 1000...5000)))
      }
      try await responses.write(message)
      if case .ended(let session) = event, session.id == caller { throw .sessionRevoked }
    }
    // Only another watch that takes this one's place, a service that stops, or a call that nobody waits for, ends the
    // events.
    throw .watchEnded(isStopping: sessionEvents.isDraining)
  }

  /// Nil for what is no event.
  private func message(
    _ event: SessionEventHub.Event, for caller: SessionID
  ) -> IdentityV1.WatchSessionEventsResponse? {
    switch event {
    case .missed: nil
    case .started(let session):
      IdentityV1.WatchSessionEventsResponse(
        event: .started,
        sid: session.id.description,
        at: GoogleProtobuf.Timestamp(session.beganAt),
        session: Self.message(session, for: caller)
      )
    case .mergeFailed(let merge):
      IdentityV1.WatchSessionEventsResponse(
        event: .migrationFailed,
        at: GoogleProtobuf.Timestamp(merge.at),
        migrationID: merge.migration ?? ""
      )
    case .ended(let session):
      IdentityV1.WatchSessionEventsResponse(
        event: session.why == .refreshReused ? .refreshReused : .ended,
        sid: session.id.description,
        at: GoogleProtobuf.Timestamp(session.at)
      )
    }
  }
}
