import Cryptography
import LatchkeyModel
import Logging
import Storage

/// Makes every link of the audit log anew and compares.
package struct AuditVerification: Sendable {
  private let audit: any AuditStore
  private let chain: AuditChain

  package init(_ audit: any AuditStore, _ chain: AuditChain) {
    self.audit = audit
    self.chain = chain
  }

  package struct Finding: Sendable, Equatable {
    package var isIntact: Bool
    /// The last event that held, and its link.
    package var verified: Int64
    package var head: [UInt8]
  }

  /// Page by page, so that other readers get their turns. Nil when the task was cancelled.
  package func run() async throws(StorageError) -> Finding? {
    var sequence: Int64 = 0
    var link = AuditChain.origin
    if let checkpoint = try await audit.checkpoint() {
      guard
        ConstantTime.equals(
          checkpoint.seal, chain.seal(sequence: checkpoint.sequence, link: checkpoint.link))
      else { return Finding(isIntact: false, verified: 0, head: link) }
      (sequence, link) = (checkpoint.sequence, checkpoint.link)
    }
    while !Task.isCancelled {
      let events = try await audit.events(after: sequence, of: nil, limit: Limits.auditPage)
      // The log may be trimmed while it is read: then it goes on from the new checkpoint.
      if let first = events.first, first.sequence != sequence + 1,
        let checkpoint = try await audit.checkpoint(), checkpoint.sequence > sequence
      {
        return try await run()
      }
      for event in events {
        let expected = chain.link(after: link, sequence: sequence + 1, event.note)
        guard event.sequence == sequence + 1, ConstantTime.equals(event.link, expected) else {
          return Finding(isIntact: false, verified: sequence, head: link)
        }
        (sequence, link) = (event.sequence, event.link)
      }
      if events.count < Limits.auditPage { return Finding(isIntact: true, verified: sequence, head: link) }
    }
    return nil
  }

  /// Verifies at the start, beside the service's work, and says what was found.
  package func report(to logger: Logger) async {
    do throws(StorageError) {
      guard let finding = try await run() else { return }
      if finding.isIntact {
        logger.info("the audit log is intact", metadata: ["events": "\(finding.verified)"])
      } else {
        logger.critical("the audit log was tampered with", metadata: ["sequence": "\(finding.verified + 1)"])
      }
    } catch {
      logger.error("the audit log could not be verified", metadata: ["cause": "\(error)"])
    }
  }
}
