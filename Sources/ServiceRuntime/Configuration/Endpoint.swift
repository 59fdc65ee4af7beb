/// A host and a port, as configuration writes them: `127.0.0.1:7401`, `[::1]:7401`, `identity.internal:7401`.
package struct Endpoint: Sendable, Equatable, CustomStringConvertible {
  package var host: String
  package var port: Int

  package init(host: String, port: Int) {
    self.host = host
    self.port = port
  }

  /// Nil for anything else than a host and a port from 1 to 65535.
  package init?(_ text: String) {
    guard let colon = text.lastIndex(of: ":"), let port = Int(text[text.index(after: colon)...]),
      (1...65535).contains(port)
    else { return nil }
    var host = text[..<colon]
    if host.hasPrefix("["), host.hasSuffix("]") {
      host = host.dropFirst().dropLast()
    } else if host.contains(":") {
      return nil
    }
    guard !host.isEmpty, host.allSatisfy({ $0.isASCII && !$0.isWhitespace && $0 != "/" }) else { return nil }
    self.host = String(host)
    self.port = port
  }

  package var description: String {
    host.contains(":") ? "[\(host)]:\(port)" : "\(host):\(port)"
  }

  /// Whether only this machine can reach it.
  package var isLoopback: Bool {
    if host == "localhost" || host == "::1" { return true }
    let parts = host.split(separator: ".", omittingEmptySubsequences: false)
    return parts.count == 4 && parts[0] == "127" && parts.allSatisfy { UInt8($0) != nil }
  }
}

extension ConfigurationKey where Value == Endpoint {
  package static func endpoint(_ name: String, default defaultValue: Endpoint, help: String) -> Self {
    Self(name, default: .string(defaultValue.description), help: help) { value throws(ConfigurationError) in
      guard case .string(let text) = value, let endpoint = Endpoint(text) else {
        throw .invalidValue(key: name, reason: "must be a host and a port, such as 127.0.0.1:7401")
      }
      return endpoint
    }
  }
}
