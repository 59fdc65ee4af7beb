import Testing

@testable import Callers

@Suite("Trusted proxies")
struct TrustedProxiesTests {
  private func client(_ field: TrustedProxies.Field, _ values: [String]) throws -> String {
    let networks = try ["127.0.0.1", "10.0.0.0/8", "2001:db8:1::/48"].map {
      try #require(NetworkRange(networkOrAddress: $0))
    }
    let proxies = TrustedProxies(networks, field: field)
    return proxies.client(namedBy: values, proxy: try #require(NetworkAddress("127.0.0.1"))).text
  }

  @Test(
    "R53: X-Forwarded-For: the last address that is no proxy's, and nothing left of it",
    arguments: [
      ([], "127.0.0.1"), (["203.0.113.7"], "203.0.113.7"), (["1.2.3.4, 203.0.113.7"], "203.0.113.7"),
      (["1.2.3.4", "203.0.113.7, 10.1.1.1"], "203.0.113.7"), (["127.0.0.1, 203.0.113.7"], "203.0.113.7"),
      (["203.0.113.7:4711"], "203.0.113.7"), (["2001:db8::7"], "2001:db8::7"),
      (["[2001:db8::7]:4711"], "2001:db8::7"), (["[2001:db8::7]"], "2001:db8::7"),
      (["203.0.113.7, 2001:db8:1::1"], "203.0.113.7"), (["::ffff:203.0.113.7"], "203.0.113.7"),
      // Where an entry is no address, the proxy that wrote it is all that is known.
      (["203.0.113.7, unknown"], "127.0.0.1"), (["203.0.113.7, _x, 10.1.1.1"], "10.1.1.1"), ([""], "127.0.0.1"),
      (["203.0.113.7,"], "127.0.0.1"), (["[203.0.113.7]"], "127.0.0.1"), (["203.0.113.7:x"], "127.0.0.1"),
      (["fe80::1%eth0"], "127.0.0.1"), (["10.0.0.1, 10.0.0.2"], "10.0.0.1"),
      (["203.0.113.7:_a.b-c_1"], "203.0.113.7"), (["203.0.113.7:_"], "203.0.113.7"), (["203.0.113.7:_a/"], "127.0.0.1"),
    ])
  func forwardedFor(values: [String], expected: String) throws {
    #expect(try client(.forwardedFor, values) == expected)
  }

  @Test(
    "R53: Forwarded: what a client wrote or left open hides nothing that a proxy wrote behind it",
    arguments: [
      (["for=203.0.113.7"], "203.0.113.7"), (["For=\"[2001:db8::7]:4711\";proto=https"], "2001:db8::7"),
      (["for=1.2.3.4, for=203.0.113.7;by=10.0.0.1"], "203.0.113.7"), (["by=10.0.0.1;for=203.0.113.7"], "203.0.113.7"),
      (["for=\"1.2.3.4", "for=203.0.113.7"], "203.0.113.7"), (["for=\"1.2.3.4, for=203.0.113.7"], "203.0.113.7"),
      (["for=203.0.113.7, for=10.0.0.2"], "203.0.113.7"),
      // A comma in a quotation ends no entry.
      (["for=203.0.113.7;host=\"x, for=1.2.3.4;y=\""], "203.0.113.7"),
      (["for=203.0.113.7;host=\"x;for=1.2.3.4\""], "203.0.113.7"),
      (["for=1.2.3.4;for=203.0.113.7"], "127.0.0.1"), (["for=unknown"], "127.0.0.1"), (["for=_hidden"], "127.0.0.1"),
      (["proto=https"], "127.0.0.1"), (["for=203.0.113.7, "], "127.0.0.1"), (["for=\"203.0.113.7"], "127.0.0.1"),
    ])
  func forwarded(values: [String], expected: String) throws {
    #expect(try client(.forwarded, values) == expected)
  }

  @Test(
    "R53: a client's last letter takes no mark to itself that the proxy writes behind it",
    arguments: ["\u{600}", "\u{6DD}", "\u{110BD}", "\u{200D}", "\u{1F1E6}", "e\u{301}", "\u{D4E}", "\0", "\r"])
  func lettersThatJoin(_ letter: String) throws {
    for (field, start) in [
      (TrustedProxies.Field.forwardedFor, "9.9.9.9:_"), (.forwardedFor, ""), (.forwardedFor, "[2001:db8::1]:_"),
      (.forwardedFor, "9.9.9.9"), (.forwarded, "for=9.9.9.9;x="), (.forwarded, "for=9.9.9.9;x=\""),
    ] {
      for end in [",", ", ", "\u{301},", ",\u{301}"] {
        let honest = field == .forwarded ? "for=203.0.113.7" : "203.0.113.7"
        // Where the client's letter stands behind the comma, the proxy wrote what is no address.
        let expected = end.last == "\u{301}" || end == ",\u{301}" ? "127.0.0.1" : "203.0.113.7"
        #expect(try client(field, ["\(start)\(letter)\(end)\(honest)"]) == expected, "\(start) \(end)")
      }
    }
    let node = "9.9.9.9:_\(letter)"
    #expect(NetworkAddress(node: node) == nil && NetworkAddress(node: "9.9.9.9\(letter)") == nil)
  }

  @Test("R53: a row of proxies has an end, however long the field is")
  func hops() throws {
    let proxies = Array(repeating: "10.0.0.1", count: 15).joined(separator: ", ")
    #expect(try client(.forwardedFor, ["203.0.113.7, \(proxies)"]) == "203.0.113.7")
    #expect(try client(.forwardedFor, ["203.0.113.7, 10.0.0.2, \(proxies)"]) == "10.0.0.2")
    #expect(try client(.forwardedFor, ["203.0.113.7, 10.0.0.3, 10.0.0.2, \(proxies)"]) == "10.0.0.2")
  }

  @Test("R53: nobody is trusted unless listed")
  func nobody() throws {
    for text in ["127.0.0.1", "::1", "10.0.0.1"] {
      let address = try #require(NetworkAddress(text))
      #expect(!TrustedProxies().trusts(address))
    }
    #expect(NetworkRange(networkOrAddress: "10.0.0.0/33") == nil && NetworkRange(networkOrAddress: "") == nil)
  }

  @Test("An address is written as it is read")
  func text() {
    for text in ["0.0.0.0", "203.0.113.255", "::1", "2001:db8::7", "ff02::1:ff00:42"] {
      #expect(NetworkAddress(text)?.text == text)
    }
    #expect(NetworkAddress("::ffff:192.0.2.1")?.text == "192.0.2.1")
  }
}
