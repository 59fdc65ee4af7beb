internal import Callers
internal import NIOCore

extension SocketAddress {
  /// Nil for what is no address of a network.
  var networkAddress: NetworkAddress? {
    switch self {
    case .v4(let address): .v4(UInt32(bigEndian: address.address.sin_addr.s_addr))
    case .v6(let address):
      unsafe withUnsafeBytes(of: address.address.sin6_addr) { bytes in
        unsafe NetworkAddress(sixteen: Array(bytes)[...])
      }
    case .unixDomainSocket: nil
    }
  }
}
