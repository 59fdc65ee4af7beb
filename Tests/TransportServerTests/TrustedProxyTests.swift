import Callers
import GRPC
import NIOCore
import Testing
import TransportTestSupport

@testable import TransportServer

@Suite("A server behind proxies")
struct TrustedProxyTests {
  private static func trusting(
    _ networks: [String],
    field: TrustedProxies.Field = .forwardedFor,
    requiresHeader: Bool = false
  ) throws -> @Sendable (inout RPCServer.Configuration) -> Void {
    let ranges = try networks.map { try #require(NetworkRange(networkOrAddress: $0)) }
    let proxies = TrustedProxies(ranges, field: field, requiresHeader: requiresHeader)
    return { $0.proxies = proxies }
  }

  private static let header = Array("PROXY TCP4 203.0.113.7 192.0.2.1 4660 443\r\n".utf8)
  private static let page = Array("GET /who HTTP/1.1\r\nhost: x\r\nx-forwarded-for: 1.2.3.4\r\n\r\n".utf8)

  /// What the page says to bytes sent in these parts; nil when the connection is closed instead.
  private func asked(_ server: TestServer, _ parts: [[UInt8]]) async throws -> String? {
    let peer = try await TestPeer.connect(server.address)
    for part in parts {
      do { try await peer.send(raw: part) } catch { break }
      if parts.count > 1 { try await Task.sleep(for: .milliseconds(2)) }
    }
    for _ in 0..<3000 where peer.channel?.isActive == true {
      let text = String(decoding: peer.rawBytes, as: UTF8.self)
      if let range = text.firstRange(of: "\r\n\r\n"), text.hasPrefix("HTTP/1.1 200 "), text.hasSuffix("!") {
        await peer.close()
        return String(text[range.upperBound...].dropLast())
      }
      try await Task.sleep(for: .milliseconds(10))
    }
    #expect(peer.channel?.isActive == false, "neither answered nor closed")
    await peer.close()
    return nil
  }

  @Test("R53: the PROXY protocol names the caller of a trusted proxy's connection, and no field does then")
  func proxyProtocol() async throws {
    try await TestServer.run(Self.trusting(["127.0.0.0/8"])) { server in
      #expect(try await asked(server, [Self.header + Self.page]) == "203.0.113.7")
      #expect(try await asked(server, Self.header.map { [$0] } + [Self.page]) == "203.0.113.7")
      #expect(try await asked(server, [Array("PROXY UNKNOWN\r\n".utf8) + Self.page]) == "127.0.0.1")
      #expect(try await asked(server, [Array("PROXY nonsense\r\n".utf8) + Self.page]) == nil)
      // A second header is the client's, who has nothing to say in it.
      #expect(try await asked(server, [Self.header + Self.header + Self.page]) == nil)
      #expect(try await asked(server, [Self.page]) == "1.2.3.4")
      let peer = try await TestPeer.connect(server.address, after: Self.header)
      let fields = [("content-type", "application/grpc"), ("x-forwarded-for", "1.2.3.4")]
      let answer = try await peer.call("/t.T/Who", Blob([]).frame, headers: fields)
      #expect(answer.messages.map { String(decoding: $0, as: UTF8.self) } == ["203.0.113.7"])
      await peer.close()
    }
  }

  @Test("R53: a proxy that has to send the header is not served without; others cannot send it")
  func whoSends() async throws {
    try await TestServer.run(Self.trusting(["127.0.0.1"], requiresHeader: true)) { server in
      #expect(try await asked(server, [Self.header + Self.page]) == "203.0.113.7")
      #expect(try await asked(server, [Self.page]) == nil)
      let peer = try await TestPeer.connect(server.address)
      let answer = try? await peer.call("/t.T/Who", Blob([]).frame)
      #expect(answer?.fields.isEmpty != false)
      await peer.close()
    }
    try await TestServer.run(Self.trusting(["192.0.2.0/24"])) { server in
      let answers = (try await asked(server, [Self.header + Self.page]), try await asked(server, [Self.page]))
      #expect(answers == (nil, "127.0.0.1"))
    }
  }

  @Test("R53: a field names the caller of each request of a trusted proxy, over HTTP/2, gRPC-Web and HTTP/1.1")
  func fields() async throws {
    try await TestServer.run(Self.trusting(["127.0.0.1"], field: .forwarded)) { server in
      let peer = try await TestPeer.connect(server.address)
      for (value, expected) in [("for=1.2.3.4, for=203.0.113.7", "203.0.113.7"), ("for=203.0.113.8", "203.0.113.8")] {
        // Twice: the second time the header block is known.
        for _ in 0..<2 {
          for type in ["application/grpc", "application/grpc-web"] {
            let fields = [("content-type", type), ("forwarded", value), ("x-forwarded-for", "9.9.9.9")]
            let answer = try await peer.call("/t.T/Who", Blob([]).frame, headers: fields)
            #expect(answer.messages.first.map { String(decoding: $0, as: UTF8.self) } == expected)
          }
          let page = try await peer.call("/who", [], headers: [("forwarded", value)], method: "GET")
          #expect(String(decoding: page.body, as: UTF8.self) == "\(expected)!")
        }
      }
      await peer.close()
    }
    try await TestServer.run { server in
      let peer = try await TestPeer.connect(server.address)
      let fields = [("content-type", "application/grpc"), ("x-forwarded-for", "1.2.3.4"), ("forwarded", "for=1.2.3.4")]
      let answer = try await peer.call("/t.T/Who", Blob([]).frame, headers: fields)
      #expect(answer.messages.map { String(decoding: $0, as: UTF8.self) } == ["127.0.0.1"])
      await peer.close()
      #expect(try await asked(server, [Self.page]) == "127.0.0.1")
    }
  }
}
