import Testing

@testable import TransportServer

@Suite("CORS")
struct CORSPolicyTests {
  @Test(
    "Only origins as browsers write them can be listed",
    arguments: [
      "*", "null", "", "https://", "https://a.example/", "https://A.example", "https://a.example:443", "http://a:80",
      "a.example", "ftp://a.example", "https://user@a.example", "https://a.example?x", "https://*.example",
    ]
  )
  func refused(text: String) {
    #expect(CORSPolicy(allowing: ["https://fine.example", text]) == nil)
  }

  @Test("An origin is allowed by being listed, letter by letter")
  func allowed() throws {
    let policy = try #require(
      CORSPolicy(allowing: ["https://a.example", "http://localhost:3000", "http://[::1]:80000"])
    )
    #expect(
      policy.fields(origin: "https://a.example").contains { $0 == ("access-control-allow-origin", "https://a.example") }
    )
    for origin in ["https://a.example.evil", "http://a.example", "https://a.example:8443", "https://A.example", nil] {
      #expect(policy.fields(origin: origin).map(\.name) == ["vary"])
    }
    #expect(CORSPolicy.none.fields(origin: "https://a.example").isEmpty)
  }

  @Test("A preflight is granted the header names it asks for, and nothing that is not a list of names")
  func preflight() throws {
    let policy = try #require(CORSPolicy(allowing: ["https://a.example"]))
    func ask(_ headers: String, method: String = "POST") -> PageResponse? {
      policy.preflight(
        PageRequest(
          method: "OPTIONS",
          path: "/x",
          headers: [
            ("origin", "https://a.example"), ("access-control-request-method", method),
            ("access-control-request-headers", headers),
          ],
          peerAddress: ""
        )
      )
    }
    let granted = try #require(ask("authorization, x-any_thing"))
    #expect(granted.status == 204)
    #expect(granted.headers.contains { $0 == ("access-control-allow-headers", "authorization, x-any_thing") })
    #expect(ask("a\r\nset-cookie: b")?.headers.contains { $0.name == "access-control-allow-headers" } == false)
    #expect(ask("x", method: "DELETE")?.status == 403)
    #expect(policy.preflight(PageRequest(method: "GET", path: "/", peerAddress: "")) == nil)
  }
}
