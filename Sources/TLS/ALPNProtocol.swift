/// An application protocol as ALPN names it (RFC 7301).
package enum ALPNProtocol: String, Sendable, CaseIterable {
  case http2 = "h2"
  case http1 = "http/1.1"
}

extension [ALPNProtocol] {
  /// The list as the extension carries it: each name behind its length.
  var wireForm: [UInt8] {
    flatMap { [UInt8($0.rawValue.utf8.count)] + [UInt8]($0.rawValue.utf8) }
  }
}
