import Testing

@testable import HTTP2

/// RFC 9113 §8.3.1: a request says by `:authority`, by `Host` or by both whom it is for, and says one thing.
@Suite struct AuthorityTests {
  private func isServed(_ scheme: String, authority: String?, hosts: [String]) throws -> Bool {
    let peer = try ScriptedPeer()
    // The scheme comes last: where it stands makes no difference to what is compared.
    let pseudo = [(":method", "POST"), (":path", "/a")] + (authority.map { [(":authority", $0)] } ?? [])
    peer.headers(1, pseudo + [(":scheme", scheme)] + hosts.map { ("host", $0) })
    let resets = peer.received().filter { $0.type == FrameType.reset.rawValue }
    #expect(peer.server.failure == nil)
    #expect(resets.map(\.code) == (peer.events.opened.isEmpty ? [.protocolError] : []))
    return !peer.events.opened.isEmpty
  }

  @Test(
    "A Host that names what :authority names is fine, in any case and with or without the scheme's port",
    arguments: [
      ("http", "id.example", "id.example"), ("http", "id.example", "ID.Example"),
      ("http", "id.example", "id.example:80"),
      ("http", "id.example:80", "id.example:"), ("https", "id.example:443", "id.example"),
      ("https", "id.example:7401", "Id.Example:7401"), ("http", "[::1]", "[::1]:80"),
      ("https", "[FE80::1]:1", "[fe80::1]:1"),
      ("http", "", ""),
    ])
  func same(_ scheme: String, _ authority: String, _ host: String) throws {
    #expect(try isServed(scheme, authority: authority, hosts: [host]))
  }

  @Test(
    "A Host that names something else makes the request malformed",
    arguments: [
      ("http", "id.example", "qr.example"), ("http", "id.example", "id.example:81"),
      ("http", "id.example", "id.example:443"),
      ("https", "id.example", "id.example:80"), ("https", "id.example:1", "id.example:2"), ("http", "id.example", ""),
      ("http", "", "id.example"), ("http", "id.example", "id.example.evil"), ("http", "[::1]", "[::2]"),
      ("http", "[::1]", "[::1]:1"), ("grpc", "id.example", "id.example:80"),
    ])
  func different(_ scheme: String, _ authority: String, _ host: String) throws {
    #expect(try !isServed(scheme, authority: authority, hosts: [host]))
  }

  @Test("Several Host fields say the same, with and without :authority")
  func severalHosts() throws {
    #expect(try isServed("http", authority: nil, hosts: ["a"]))
    #expect(try isServed("http", authority: nil, hosts: ["a", "A:80"]))
    #expect(try !isServed("http", authority: nil, hosts: ["a", "b"]))
    #expect(try !isServed("http", authority: "a", hosts: ["a", "b"]))
    #expect(try !isServed("http", authority: "a", hosts: ["a", "a", "b", "a"]))
    #expect(try !isServed("http", authority: nil, hosts: []))
  }

  @Test("Neither names a user")
  func user() throws {
    #expect(try !isServed("http", authority: "ada@id.example", hosts: []))
    #expect(try !isServed("http", authority: nil, hosts: ["ada@id.example"]))
    #expect(try !isServed("http", authority: "ada@id.example", hosts: ["ada@id.example"]))
  }
}
