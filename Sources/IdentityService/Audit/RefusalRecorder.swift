import GRPC
import LatchkeyModel
import Logging
import ServiceRuntime
import Storage
import Synchronization

/// Records the calls that were refused for who made them, or for how many: they change nothing, so no other change
/// carries their record.
///
/// Bounded in memory and on disk: of a flood, so many a second are recorded one by one and the rest as a number.
package final class RefusalRecorder: ServerInterceptor {
  private struct State {
    var waiting: [AuditNote] = []
    var dropped: Int64 = 0
    var second: Int64 = 0
    var inSecond = 0
  }

  private let store: any AuditStore
  private let clock: any WallClock
  private let logger: Logger
  private let state = Mutex(State())

  package init(_ store: any AuditStore, clock: any WallClock, logger: Logger) {
    self.store = store
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
      guard state.inSecond < Limits.auditRefusalsPerSecond, state.waiting.count < Limits.auditRefusalsWaiting else {
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

  package func flush() async {
    let (notes, dropped) = state.withLock { state in
      defer { (state.waiting, state.dropped) = ([], 0) }
      return (state.waiting, state.dropped)
    }
    guard !notes.isEmpty || dropped > 0 else { return }
    let more = dropped == 0 ? [] : [AuditNote(.refusalsDropped, at: clock.now(), detail: "\(dropped)")]
    do throws(StorageError) {
      try await store.record(notes + more)
    } catch {
      logger.error(
        "refusals could not be recorded", metadata: ["refusals": "\(notes.count + Int(dropped))", "cause": "\(error)"])
    }
  }
}
