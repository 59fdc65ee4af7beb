internal import NIOCore

#if canImport(Glibc)
  internal import Glibc
#else
  internal import Darwin
#endif

extension Channel {
  /// Lets the kernel ask a silent peer whether it is still there, and end the connection when it is not.
  func askForSignsOfLife() {
    guard let options = syncOptions else { return }
    // Only a socket has them; a test's channel does without.
    try? options.setOption(.socketOption(.so_keepalive), value: 1)
    #if canImport(Glibc)
      let idle = TCP_KEEPIDLE
    #else
      let idle = TCP_KEEPALIVE
    #endif
    try? options.setOption(.tcpOption(.init(rawValue: idle)), value: Limits.tcpKeepaliveSeconds)
    try? options.setOption(.tcpOption(.init(rawValue: TCP_KEEPINTVL)), value: Limits.tcpProbeSeconds)
    try? options.setOption(.tcpOption(.init(rawValue: TCP_KEEPCNT)), value: Limits.tcpProbes)
  }
}
