/// Where a channel connects to: a name to resolve, or addresses.
///
///     localhost:7401      dns:///identity.internal:7401      ipv4:10.0.0.1:7401,10.0.0.2:7401      ipv6:[::1]:7401
///
/// Source: gRPC "Name Resolution". The port is never left out: Latchkey has no default one.
package struct ChannelTarget: Sendable, Equatable {
  package struct Endpoint: Sendable, Hashable {
    package var host: String
    package var port: Int

    package init(host: String, port: Int) {
      self.host = host
      self.port = port
    }

    /// `host:port`, the host in brackets when it is an IPv6 address.
    package var text: String {
      host.utf8.contains(UInt8(ascii: ":")) ? "[\(host)]:\(port)" : "\(host):\(port)"
    }
  }

  package enum Source: Sendable, Equatable {
    case name(Endpoint)
    case addresses([Endpoint])
  }

  /// Why a text is no target, in words for who wrote it.
  package struct Malformed: Error, Sendable, Equatable, CustomStringConvertible {
    package var description: String
  }

  package var source: Source

  package init(host: String, port: Int) {
    source = .name(Endpoint(host: host, port: port))
  }

  package init(_ text: String) throws(Malformed) {
    if let rest = text.dropping(prefix: "ipv4:") {
      source = .addresses(try Self.endpoints(rest))
    } else if let rest = text.dropping(prefix: "ipv6:") {
      source = .addresses(try Self.endpoints(rest))
    } else if let rest = text.dropping(prefix: "dns:") {
      guard let path = rest.dropping(prefix: "//") else {
        source = .name(try Self.endpoint(rest))
        return
      }
      guard let name = path.dropping(prefix: "/") else {
        throw Malformed(description: "\(text): a name server of one's own is not supported, use dns:///host:port")
      }
      source = .name(try Self.endpoint(name))
    } else {
      source = .name(try Self.endpoint(text[...]))
    }
  }

  /// The name that requests carry as `:authority` and that a certificate must be for.
  package var endpoint: Endpoint {
    switch source {
    case .name(let endpoint): endpoint
    case .addresses(let endpoints): endpoints.first ?? Endpoint(host: "", port: 0)
    }
  }

  private static func endpoints(_ text: Substring) throws(Malformed) -> [Endpoint] {
    var endpoints: [Endpoint] = []
    for part in text.split(separator: ",", omittingEmptySubsequences: false) {
      endpoints.append(try endpoint(part))
    }
    return endpoints
  }

  private static func endpoint(_ text: Substring) throws(Malformed) -> Endpoint {
    let malformed = Malformed(description: "\"\(text)\" is not host:port")
    guard let colon = text.lastIndex(of: ":") else { throw malformed }
    var host = text[..<colon]
    if host.first == "[", host.last == "]" {
      host = host.dropFirst().dropLast()
    } else if host.contains(":") {
      throw Malformed(description: "\"\(text)\": an IPv6 address stands in brackets")
    }
    guard
      !host.isEmpty, host.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7f && $0 != UInt8(ascii: "/") }),
      let port = UInt16(text[text.index(after: colon)...]), port > 0
    else { throw malformed }
    return Endpoint(host: String(host), port: Int(port))
  }
}

extension StringProtocol {
  fileprivate func dropping(prefix: String) -> SubSequence? {
    hasPrefix(prefix) ? dropFirst(prefix.count) : nil
  }
}
