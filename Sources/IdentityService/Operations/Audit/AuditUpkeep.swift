import Domain
import LatchkeyModel
import ServiceRuntime
import Storage

/// Verifies the log of security events, keeps it as long as it is to be kept, and records refusals.
package struct AuditUpkeep: Deciding {
  let domain: IdentityDomain
  let auditChain: AuditChain
  /// How long security events are kept; nil for ever.
  let retention: Duration?
  let refusals: RefusalRecorder
  package let sealing: AuditSealing
  let surroundings: Surroundings

  var tasks: [BackgroundTask] {
    [
      BackgroundTask("refusals") { await refusals.run() },
      BackgroundTask("audit seals") { await sealing.run() },
      BackgroundTask("audit log") {
        await AuditVerification(domain, auditChain).report(to: logger)
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
      let trimmed = try? await domain.perform(
        TrimAuditLog(before: now - retention, limit: Limits.auditTrimRows, at: now, auditChain))
      guard let trimmed, trimmed >= Limits.auditTrimRows else { break }
    }
    // Seals that speak of a chain are at most as old as what it forgot last.
    try? await domain.perform(ForgetChains(before: now - retention - retention - Limits.auditChainMargin))
  }
}
