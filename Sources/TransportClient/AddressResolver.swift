package import NIOCore

/// Finds the addresses behind a target.
package protocol AddressResolver: Sendable {
  /// The addresses, best first; never empty. Errors: `UNAVAILABLE` with the reason.
  func resolve(_ target: ChannelTarget) async throws(AddressResolutionError) -> [SocketAddress]
}

/// Why a target has no addresses.
package struct AddressResolutionError: Error, Sendable, Equatable {
  package var reason: String

  package init(reason: String) {
    self.reason = reason
  }
}
