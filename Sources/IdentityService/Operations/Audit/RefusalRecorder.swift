import Domain
import GRPC
import LatchkeyModel
import Logging
import ServiceRuntime
import Storage
import Synchronization

/// Records the calls that were refused for who made them, or for how many: they change nothing, so no other change
/// carries their record.
///
/// Bounded in memory and on disk: of a flood, so many a second and so many in all are recorded one by one, and the rest
/// as a number.
package final class RefusalRecorder: ServerInterceptor {
  private struct State {
    var waiting: [AuditNote] = []
    var dropped: Int64 = 0
    var second: Int64 = 0
    var inSecond = 0
    /// Refusals that are on record one by one.
    var recorded = 0
    /// When those left out were last recorded as a number.
    var toldDropped: LatchkeyModel.Timestamp?
  }

  private let limit: Int

  private let domain: IdentityDomain
  private let clock: any WallClock
  private let logger: Logger
  private let state = Mutex(State())

  /// - Parameter limit: refusals that are on record one by one, in all.
  package init(_ domain: IdentityDomain, limit: Int = Limits.auditRefusals, clock: any WallClock, logger: Logger) {
    self.domain = domain
    self.limit = limit
    self.clock = clock
    self.logger = logger
  }

  package func didFinish(_ context: ServerContext, status: StatusCode, duration: Duration) {
    switch status {
    case .unauthenticated, .permissionDenied, .resourceExhausted: break
    default: return
    }
    let now = clock.now()
    var note = AuditNote(
      .callRefused, at: now, address: context.peer.address, detail: "\(context.method.path) \(status)")
    if case .subject(let caller) = context.caller {
      note.subject = SubjectID(caller.subject)
      note.session = SessionID(caller.sessionID)
    }
    state.withLock { state in
      if state.second != now.secondsSinceEpoch { (state.second, state.inSecond) = (now.secondsSinceEpoch, 0) }
      guard state.inSecond < Limits.auditRefusalsPerSecond, state.waiting.count < Limits.auditRefusalsWaiting,
        state.recorded + state.waiting.count < limit
      else {
        state.dropped += 1
        return
      }
      state.inSecond += 1
      state.waiting.append(note)
    }
  }

  /// Writes what waits, again and again, until the task is cancelled; then once more.
  package func run() async {
    while !Task.isCancelled {
      try? await Task.sleep(for: Limits.auditInterval)
      await flush()
    }
  }

  /// Counts what is on record, as events are forgotten with time.
  package func count() async {
    guard let count = try? await domain.look(CountEvents(of: .callRefused)) else { return }
    state.withLock { $0.recorded = count }
  }

  package func flush() async {
    let now = clock.now()
    let (notes, dropped) = state.withLock { state in
      let notes = state.waiting
      state.waiting = []
      state.recorded += notes.count
      // Beyond the bound even the numbers come rarely.
      if state.recorded >= limit, let told = state.toldDropped, now < told + Limits.auditDroppedInterval {
        return (notes, Int64(0))
      }
      let dropped = state.dropped
      if dropped > 0 { (state.dropped, state.toldDropped) = (0, now) }
      return (notes, dropped)
    }
    guard !notes.isEmpty || dropped > 0 else { return }
    let more = dropped == 0 ? [] : [AuditNote(.refusalsDropped, at: now, detail: "\(dropped)")]
    do throws(StorageError) {
      try await domain.perform(RecordEvents(notes + more))
    } catch {
      logger.error(
        "refusals could not be recorded", metadata: ["refusals": "\(notes.count + Int(dropped))", "cause": "\(error)"])
    }
  }
}
