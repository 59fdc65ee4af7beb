import Testing

@testable import TransportClient

@Suite("A channel's target")
struct ClientTargetTests {
  @Test("is a name, or addresses, each with its port")
  func parses() throws {
    #expect(try ChannelTarget("localhost:7401").source == .name(.init(host: "localhost", port: 7401)))
    #expect(try ChannelTarget("dns:///id.internal:443").source == .name(.init(host: "id.internal", port: 443)))
    #expect(try ChannelTarget("[::1]:80").source == .name(.init(host: "::1", port: 80)))
    #expect(
      try ChannelTarget("ipv4:10.0.0.1:1,10.0.0.2:2").source
        == .addresses([.init(host: "10.0.0.1", port: 1), .init(host: "10.0.0.2", port: 2)])
    )
    #expect(try ChannelTarget("ipv6:[::1]:80").endpoint.text == "[::1]:80")
  }

  @Test(
    "is refused when it is malformed",
    arguments: [
      "", "localhost", "localhost:", ":7401", "localhost:0", "localhost:65536", "localhost:x", "::1:80", "a b:1",
      "dns://8.8.8.8/host:1", "ipv4:", "ipv4:10.0.0.1:1,", "http://host:1",
    ]
  )
  func refuses(text: String) {
    #expect(throws: ChannelTarget.Malformed.self) { try ChannelTarget(text) }
  }
}
