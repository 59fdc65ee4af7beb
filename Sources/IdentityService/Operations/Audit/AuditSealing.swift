import Domain
import ServiceRuntime
import Storage
import Synchronization

/// Records in one of this instance's chains of the audit log where all of them end, again and again, as they grow. Where
/// there is one chain it records nothing.
package final class AuditSealing: Deciding {
  private struct State {
    /// The last places that were seen in the latest rounds, the oldest first. Places are given before commits: what has a
    /// place before the oldest was committed before the latest round, or will never be.
    var places: [Int64] = []
    /// How far each chain was recorded.
    var sealed: [Int64: Int64] = [:]
  }

  let domain: IdentityDomain
  let surroundings: Surroundings
  private let state = Mutex(State())

  init(_ domain: IdentityDomain, _ surroundings: Surroundings) {
    self.domain = domain
    self.surroundings = surroundings
  }

  func run() async {
    repeat { await seal() } while await pause(Limits.auditSealInterval)
  }

  package func seal() async {
    let (place, sealed) = state.withLock { state in
      (state.places.count == Limits.auditSealRounds ? state.places.first : nil, state.sealed)
    }
    do throws(StorageError) {
      let outcome = try await domain.perform(SealChains(after: place, except: sealed, at: clock.now()))
      state.withLock { state in
        if state.sealed.count > Limits.auditSealedChains { state.sealed = [:] }
        for end in outcome.ends { state.sealed[end.chain] = end.number }
        guard let last = outcome.last ?? state.places.last else { return }
        state.places = Array((state.places + [last]).suffix(Limits.auditSealRounds))
      }
    } catch {
      if error.fault != .cancelled {
        logger.error("the ends of the audit log could not be recorded", metadata: ["cause": "\(error)"])
      }
    }
  }
}
