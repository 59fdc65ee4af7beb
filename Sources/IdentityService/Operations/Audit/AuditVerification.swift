import Cryptography
import Domain
import LatchkeyModel
import Logging
import Storage

/// Makes every link of every chain of the audit log anew and compares; then compares what chains say of the ends of others
/// with what is there.
package struct AuditVerification: Sendable {
  private let domain: IdentityDomain
  private let chain: AuditChain

  package init(_ domain: IdentityDomain, _ chain: AuditChain) {
    self.domain = domain
    self.chain = chain
  }

  package struct Finding: Sendable, Equatable {
    package var isIntact: Bool
    /// The place of the last event that held, and its link. Of several chains that are intact the last of all; of one that
    /// is not its own.
    package var verified: Int64
    package var head: [UInt8]
    /// The chain that is not intact.
    package var chain: Int64?
  }

  /// What was read so far.
  private struct Walk {
    var verified: Int64 = 0
    var head = AuditChain.origin
    /// The furthest that some chain says another one went.
    var seals: [Int64: AuditEnd] = [:]

    mutating func note(_ event: AuditEvent) {
      if event.sequence > verified { (verified, head) = (event.sequence, event.link) }
      guard event.note.kind == .logSealed, let seal = AuditSeal(event.note.detail) else { return }
      for end in seal.ends where end.number > seals[end.chain]?.number ?? 0 { seals[end.chain] = end }
    }
  }

  /// Page by page, so that other readers get their turns. Nil when the task was cancelled.
  package func run() async throws(StorageError) -> Finding? {
    var walk = Walk()
    for end in try await domain.look(FindChainEnds()) {
      switch try await verify(end, &walk) {
      case .none: return nil
      case .some(let finding?): return finding
      case .some(.none): continue
      }
    }
    for seal in walk.seals.values.sorted(by: { $0.chain < $1.chain }) {
      guard try await holds(seal) else {
        return Finding(isIntact: false, verified: walk.verified, head: walk.head, chain: seal.chain)
      }
    }
    return Finding(isIntact: true, verified: walk.verified, head: walk.head)
  }

  /// Nil when the task was cancelled, and within that nil for a chain that holds.
  private func verify(_ end: AuditEnd, _ walk: inout Walk) async throws(StorageError) -> Finding?? {
    var last = AuditEnd(chain: end.chain)
    var place: Int64 = 0
    if let checkpoint = try await domain.look(FindCheckpoint(of: end.chain)) {
      guard isGenuine(checkpoint) else {
        return Finding(isIntact: false, verified: 0, head: last.link, chain: end.chain)
      }
      last = checkpoint.end
      if end.chain == 0 {
        // Where there is one chain its numbers are places.
        place = last.number
        (walk.verified, walk.head) = (place, last.link)
      }
    }
    while !Task.isCancelled {
      let events = try await domain.look(ListChain(end.chain, after: last.number, limit: Limits.auditPage))
      // The log may be trimmed while it is read: then it goes on from the new checkpoint.
      if events.first?.number != last.number + 1, let checkpoint = try await domain.look(FindCheckpoint(of: end.chain)),
        checkpoint.number > last.number
      {
        return try await verify(end, &walk)
      }
      for event in events {
        guard event.number == last.number + 1, event.chain == last.chain,
          ConstantTime.equals(event.link, chain.link(after: last, event.note))
        else { return Finding(isIntact: false, verified: place, head: last.link, chain: end.chain) }
        last = AuditEnd(event)
        place = event.sequence
        walk.note(event)
      }
      if events.count < Limits.auditPage { return .some(nil) }
    }
    return nil
  }

  private func isGenuine(_ checkpoint: AuditCheckpoint) -> Bool {
    ConstantTime.equals(checkpoint.seal, chain.seal(checkpoint.end))
  }

  /// Whether a chain has the event that it was said to end with, or forgot it by the service's own doing.
  private func holds(_ end: AuditEnd) async throws(StorageError) -> Bool {
    let event = try await domain.look(ListChain(end.chain, after: end.number - 1, limit: 1)).first
    if let event, event.number == end.number { return ConstantTime.equals(event.link, end.link) }
    guard let checkpoint = try await domain.look(FindCheckpoint(of: end.chain)) else { return false }
    return isGenuine(checkpoint) && checkpoint.number >= end.number
  }

  /// Verifies at the start, beside the service's work, and says what was found.
  package func report(to logger: Logger) async {
    do throws(StorageError) {
      guard let finding = try await run() else { return }
      if finding.isIntact {
        logger.info("the audit log is intact", metadata: ["events": "\(finding.verified)"])
      } else {
        finding.accuse(in: logger)
      }
    } catch {
      logger.error("the audit log could not be verified", metadata: ["cause": "\(error)"])
    }
  }
}

extension AuditVerification.Finding {
  func accuse(in logger: Logger) {
    logger.critical(
      "the audit log was tampered with", metadata: ["sequence": "\(verified + 1)", "chain": "\(chain ?? 0)"])
  }
}
