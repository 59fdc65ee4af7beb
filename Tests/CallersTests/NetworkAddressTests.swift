import Testing

@testable import Callers

@Suite struct NetworkAddressTests {
  @Test("S10: addresses of one /24 or /48 are one network, others are not")
  func sameNetwork() throws {
    let same = [
      ("203.0.113.1", "203.0.113.254"), ("2001:db8:1::1", "2001:db8:1:ffff::2"), ("::ffff:203.0.113.1", "203.0.113.2"),
    ]
    let different = [
      ("203.0.113.1", "203.0.112.1"), ("2001:db8:1::1", "2001:db8:2::1"), ("203.0.113.1", "2001:db8::1"),
    ]
    for (left, right) in same {
      #expect(try #require(NetworkAddress(left)).isSameNetwork(as: try #require(NetworkAddress(right))))
    }
    for (left, right) in different {
      #expect(try #require(NetworkAddress(left)).isSameNetwork(as: try #require(NetworkAddress(right))) == false)
    }
  }

  @Test("S8: the confirm screen shows a network and never a device's address")
  func coarse() {
    #expect(NetworkAddress("203.0.113.77")?.coarse == "203.0.113.0/24")
    #expect(NetworkAddress("255.254.253.252")?.coarse == "255.254.253.0/24")
    #expect(NetworkAddress("2001:db8:abcd:12::77")?.coarse == "2001:db8:abcd::/48")
  }

  @Test("S13: one source is an IPv4 address or an IPv6 /64")
  func source() {
    #expect(NetworkAddress("2001:db8::1")?.source == NetworkAddress("2001:db8::ffff")?.source)
    #expect(NetworkAddress("2001:db8:0:1::1")?.source != NetworkAddress("2001:db8:0:2::1")?.source)
    #expect(NetworkAddress("203.0.113.1")?.source != NetworkAddress("203.0.113.2")?.source)
  }

  @Test("R26: two addresses of one subscriber are one source, and what is no address is one by its text")
  func sameSource() {
    #expect(NetworkAddress.isSameSource("2001:db8::1", "2001:db8::2"))
    #expect(NetworkAddress.isSameSource("", "") && !NetworkAddress.isSameSource("", "203.0.113.1"))
    #expect(!NetworkAddress.isSameSource("203.0.113.1", "203.0.113.2"))
  }

  @Test("What is no address is none", arguments: ["", "localhost", "1.2.3", "1.2.3.4.5", "::1%eth0", "1.2.3.4\0.5"])
  func notAddresses(text: String) {
    // C stops at a NUL: what comes before it may be an address of its own, and is then the one that counts.
    #expect(NetworkAddress(text) == nil || text.contains("\0"))
  }
}
