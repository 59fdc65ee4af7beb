import LatchkeyModel
import ServiceRuntime
import Storage

/// Verifies the log of security events, keeps it as long as it is to be kept, and records refusals.
package struct AuditUpkeep: Surrounded {
  let audit: any AuditStore
  let auditChain: AuditChain
  /// How long security events are kept; nil for ever.
  let retention: Duration?
  let refusals: RefusalRecorder
  let surroundings: Surroundings

  var tasks: [BackgroundTask] {
    [
      BackgroundTask("refusals") { await refusals.run() },
      BackgroundTask("audit log") {
        await AuditVerification(audit, auditChain).report(to: logger)
        await trim()
      },
    ]
  }

  private func trim() async {
    repeat {
      await trimOnce()
      await refusals.count()
    } while await pause(Limits.auditTrimInterval)
  }

  /// Forgets security events beyond their retention, in small steps.
  package func trimOnce() async {
    guard let retention else { return }
    let now = clock.now()
    while !Task.isCancelled {
      let trimmed = try? await audit.trim(before: now - retention, limit: Limits.auditTrimRows, at: now)
      guard let trimmed, trimmed >= Limits.auditTrimRows else { return }
    }
  }
}
