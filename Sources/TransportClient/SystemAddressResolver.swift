internal import Glibc
package import NIOCore
internal import NIOPosix

/// Asks the system's resolver, on threads of NIO's pool: `getaddrinfo` blocks.
package struct SystemAddressResolver: AddressResolver {
  package init() {}

  package func resolve(_ target: ChannelTarget) async throws(AddressResolutionError) -> [SocketAddress] {
    switch target.source {
    case .addresses(let endpoints):
      var addresses: [SocketAddress] = []
      for endpoint in endpoints {
        guard let address = try? SocketAddress(ipAddress: endpoint.host, port: endpoint.port) else {
          throw AddressResolutionError(reason: "\(endpoint.host) is not an IP address")
        }
        addresses.append(address)
      }
      return addresses
    case .name(let endpoint):
      if let address = try? SocketAddress(ipAddress: endpoint.host, port: endpoint.port) { return [address] }
      let result: Result<[SocketAddress], AddressResolutionError>
      do {
        result = try await NIOThreadPool.singleton.runIfActive { Self.lookUp(endpoint) }
      } catch {
        throw AddressResolutionError(reason: "the look-up of \(endpoint.host) was not started")
      }
      return try result.get()
    }
  }

  private static func lookUp(
    _ endpoint: ChannelTarget.Endpoint
  ) -> Result<[SocketAddress], AddressResolutionError> {
    var hints = unsafe addrinfo()
    unsafe hints.ai_socktype = Int32(SOCK_STREAM.rawValue)
    unsafe hints.ai_flags = AI_ADDRCONFIG
    var list: UnsafeMutablePointer<addrinfo>?
    let code = unsafe getaddrinfo(endpoint.host, nil, &hints, &list)
    guard code == 0 else {
      // A constant string of the C library.
      let reason = unsafe String(cString: gai_strerror(code))
      return .failure(AddressResolutionError(reason: "\(endpoint.host): \(reason)"))
    }
    // The list is ours until it is freed here; each entry says of what kind its address is.
    defer { unsafe freeaddrinfo(list) }
    var addresses: [SocketAddress] = []
    var next = unsafe list
    while let entry = unsafe next {
      if let address = unsafe address(entry.pointee, endpoint), !addresses.contains(address) {
        addresses.append(address)
      }
      unsafe next = entry.pointee.ai_next
    }
    guard !addresses.isEmpty else {
      return .failure(AddressResolutionError(reason: "\(endpoint.host) has no address"))
    }
    return .success(addresses)
  }

  private static func address(_ entry: addrinfo, _ endpoint: ChannelTarget.Endpoint) -> SocketAddress? {
    guard let raw = unsafe UnsafeRawPointer(entry.ai_addr) else { return nil }
    // The family says which structure the address is, and `ai_addrlen` covers it.
    switch unsafe entry.ai_family {
    case AF_INET:
      var address = unsafe raw.loadUnaligned(as: sockaddr_in.self)
      address.sin_port = in_port_t(endpoint.port).bigEndian
      return SocketAddress(address, host: endpoint.host)
    case AF_INET6:
      var address = unsafe raw.loadUnaligned(as: sockaddr_in6.self)
      address.sin6_port = in_port_t(endpoint.port).bigEndian
      return SocketAddress(address, host: endpoint.host)
    default:
      return nil
    }
  }
}
