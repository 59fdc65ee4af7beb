import Callers
import GRPC
import LatchkeyModel
import ServiceRuntime

/// What a new guest costs: nothing at first; work, growing with the excess, for a network that asks for many. Nobody is
/// turned away for the address alone.
///
/// Counted where challenges are handed out, because every guest needs one: a challenge says itself how much work it
/// asks for, so saving them up gains nothing.
package struct GuestAdmission: Sendable {
  private let challenges: NetworkTally

  package init(
    perHour count: Int, exempt: [NetworkRange] = [], among instances: InstanceCount = .one,
    capacity: Int = Limits.countedNetworks
  ) {
    challenges = NetworkTally(count, per: .seconds(3600), exempt: exempt, among: instances, capacity: capacity)
  }

  /// Counts a challenge and says how many bits of work it asks for.
  package func workBits(for peer: Peer, at now: Timestamp) -> Int {
    ProofOfWork.bits(forExcess: challenges.excess(from: peer, at: now))
  }

  package var countedNetworks: Int { challenges.countedNetworks }
}
