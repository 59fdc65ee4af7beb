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

  @Test("A page that everybody may read says so once, also to an origin that is listed")
  func everybody() async throws {
    let policy = try #require(CORSPolicy(allowing: ["https://a.example"]))
    let pages = [
      Page("GET", "/keys") { _ in
        var response = PageResponse(text: "keys")
        response.headers.append(("access-control-allow-origin", "*"))
        return response
      },
      Page("GET", "/other") { _ in PageResponse(text: "other") },
    ]
    for (path, origin, isAllowed) in [
      ("/keys", "https://a.example", "*"), ("/keys", "https://b.example", "*"),
      ("/other", "https://a.example", "https://a.example"), ("/other", "https://b.example", nil),
    ] {
      let request = PageRequest(method: "GET", path: path, headers: [("origin", origin)], peerAddress: "192.0.2.1")
      let headers = await PageTable(pages, cors: policy).answer(request).headers
      #expect(headers.filter { $0.name == "access-control-allow-origin" }.map(\.value) == [isAllowed].compactMap { $0 })
    }
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

  @Test("What another site's page sends is not taken, unless that site is listed; what it links to is read")
  func foreign() async throws {
    let policy = try #require(CORSPolicy(allowing: ["https://a.example"]))
    let pages = [
      Page("POST", "/x") { _ in PageResponse(text: "taken") }, Page("GET", "/x") { _ in PageResponse(text: "read") },
    ]
    func status(_ method: String, _ site: String?, _ origin: String?, _ policy: CORSPolicy) async -> Int {
      let fields = [("sec-fetch-site", site), ("origin", origin)]
      let headers = fields.compactMap { name, value in value.map { (name: name, value: $0) } }
      let request = PageRequest(method: method, path: "/x", headers: headers, peerAddress: "")
      return await PageTable(pages, cors: policy).answer(request).status
    }
    for site in ["cross-site", "same-site", "anything"] {
      #expect(await status("POST", site, "https://evil.example", policy) == 403)
      #expect(await status("POST", site, "null", policy) == 403)
      #expect(await status("POST", site, nil, policy) == 403)
      #expect(await status("POST", site, "https://a.example", policy) == 200)
      #expect(await status("POST", site, "https://a.example", .none) == 403)
      #expect(await status("GET", site, "https://evil.example", policy) == 200)
      #expect(await status("HEAD", site, nil, policy) == 200)
    }
    for site in ["same-origin", "none", nil] {
      #expect(await status("POST", site, "https://own.example", policy) == 200)
    }
  }
}
