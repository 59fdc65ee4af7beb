import Callers
import GRPC
import LatchkeyModel
import ServiceRuntime

/// Counts what comes from a network, an IPv4 address or IPv6 /64. What has no address, as calls within the process, and
/// the networks of `limits.exempt` are not counted.
package final class NetworkTally: Sendable {
  private let limiter: RateLimiter<NetworkAddress>
  private let exempt: [NetworkRange]

  package init(
    _ count: Int,
    per time: Duration,
    exempt: [NetworkRange] = [],
    among instances: InstanceCount = .one,
    capacity: Int = Limits.countedNetworks
  ) {
    self.exempt = exempt
    limiter = RateLimiter(Rate(count, per: time), among: instances, capacity: capacity)
  }

  /// Counts an event. Returns how far above the count the network is, 0 for one that is within it.
  package func excess(from peer: Peer, at now: Timestamp) -> Int64 {
    network(peer).map { limiter.excess($0, at: now) } ?? 0
  }

  /// Counts an event that is within the count; otherwise counts nothing and returns how long to wait.
  package func wait(from peer: Peer, at now: Timestamp) -> Duration? {
    network(peer).flatMap { limiter.spend($0, at: now) }
  }

  /// Takes back an event that turned out not to count.
  package func refund(to peer: Peer, at now: Timestamp) {
    if let network = network(peer) { limiter.refund(network, at: now) }
  }

  package var countedNetworks: Int { limiter.rememberedKeys }

  private func network(_ peer: Peer) -> NetworkAddress? {
    guard let address = NetworkAddress(peer.address), !exempt.contains(where: { $0.contains(address) }) else {
      return nil
    }
    return address.source
  }
}
