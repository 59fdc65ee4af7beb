import GRPC
import JSON
import LatchkeyModel
import LatchkeyProtos
import Testing
import TransportServer

@testable import QRSessionService

/// The page of a screen that wants to be signed in, as a browser and as an attacker's page meet it.
@Suite struct ScreenPageTests {
  private let harness: Harness
  private let pages: [Page]

  init() throws {
    harness = try Harness { $0.longPollInterval = .zero }
    let client = try #require(ClientID("latchkey-demo"))
    pages = SignInPage.pages + ScreenPage.pages(ScreenCalls(api: harness.api, client: client))
  }

  private func request(
    _ method: String,
    _ path: String,
    _ body: String = "",
    headers: [(name: String, value: String)] = [("content-type", "application/json")]
  ) async throws -> (response: PageResponse, json: JSONValue?) {
    let page = try #require(pages.first { $0.method == method && $0.path == path })
    let request = PageRequest(
      method: method,
      path: path,
      headers: headers,
      body: Array(body.utf8),
      peerAddress: "203.0.113.7"
    )
    let response = await page.handle(request)
    return (response, try? JSONValue(parsing: response.body))
  }

  private func issue() async throws -> (code: String, payload: String, modules: Int) {
    let answer = try await request("POST", "/signin/code", #"{"code_challenge":"\#(Harness.challenge)"}"#)
    #expect(answer.response.status == 200)
    let json = try #require(answer.json)
    return (
      try #require(json["device_code"]?.string), try #require(json["qr_payload"]?.string),
      json["modules"]?.array?.count ?? 0
    )
  }

  private func poll(_ code: String, _ more: String = "") async throws -> JSONValue {
    try #require(try await request("POST", "/signin/poll", #"{"device_code":"\#(code)"\#(more)}"#).json)
  }

  private func scan(_ payload: String, as name: String = "ada") async throws -> QRV1.ScanSessionResponse {
    try await harness.api.scanSession(
      QRV1.ScanSessionRequest(code: .qrPayload(payload)),
      context: .phone(name)
    )
  }

  @Test("S23: the page learns who confirmed without collecting, and collects with the verifier only")
  func flow() async throws {
    let screen = try await issue()
    #expect(screen.modules > 20)
    #expect(try await poll(screen.code)["state"]?.string == "pending")
    let scanned = try await scan(screen.payload)
    let mask = "\(ServerContext.id("ada").prefix(2))***"
    #expect(try await poll(screen.code, #","last_version":1"#)["scanner_mask"]?.string == mask)
    try await harness.confirm(scanned)
    let confirmed = try await poll(screen.code, #","last_version":2,"wait_ms":20000"#)
    #expect(confirmed["state"]?.string == "confirmed" && confirmed["scanner_mask"]?.string == mask)
    #expect(confirmed["tokens"] == nil && harness.grants.issuedCount == 0)
    let wrong = try await request(
      "POST", "/signin/poll", #"{"device_code":"\#(screen.code)","code_verifier":"\#(Harness.challenge)"}"#)
    #expect(wrong.response.status == 400 && wrong.json?["tokens"] == nil)
    let done = try await poll(screen.code, #","code_verifier":"\#(Harness.verifier)""#)
    #expect(done["tokens"]?["access_token"]?.string == "token-1")
  }

  @Test("S4: the page is told when a code was refused, given up or is over, and its next one takes its place")
  func ends() async throws {
    let refused = try await issue()
    try await harness.deny(try await scan(refused.payload))
    #expect(try await poll(refused.code)["state"]?.string == "denied")
    let old = try await issue()
    let next = try await request(
      "POST", "/signin/code", #"{"code_challenge":"\#(Harness.challenge)","supersedes":"\#(old.code)"}"#)
    #expect(next.response.status == 200)
    #expect(try await poll(old.code)["state"]?.string == "cancelled")
    let left = try await issue()
    _ = try await request("POST", "/signin/cancel", #"{"device_code":"\#(left.code)"}"#)
    #expect(try await poll(left.code)["state"]?.string == "cancelled")
    let late = try await issue()
    harness.clock.move(by: .seconds(120))
    #expect(try await poll(late.code)["state"]?.string == "expired")
    #expect(try await poll("never-issued")["state"]?.string == "expired")
  }

  @Test(
    "S22: a page of another origin, or a form, makes no code and collects none",
    arguments: [
      [("content-type", "text/plain")], [("content-type", "application/x-www-form-urlencoded")], [],
      [("content-type", "application/json"), ("sec-fetch-site", "cross-site")],
      [("content-type", "application/json"), ("sec-fetch-site", "same-site")],
    ] as [[(String, String)]])
  func otherOrigins(headers: [(String, String)]) async throws {
    for path in ["/signin/code", "/signin/poll", "/signin/cancel"] {
      let body = #"{"code_challenge":"\#(Harness.challenge)"}"#
      let answer = try await request("POST", path, body, headers: headers.map { (name: $0.0, value: $0.1) })
      #expect(answer.response.status == 400)
    }
    #expect(harness.audited.isEmpty)
  }

  @Test("What is no request is refused", arguments: ["", "[]", "{", #""text""#, #"{"code_challenge":7}"#, "{}"])
  func badBodies(body: String) async throws {
    #expect(try await request("POST", "/signin/code", body).response.status == 400)
  }

  @Test("S22: nothing but this origin's script and style runs on the page, and nobody frames it")
  func policy() async throws {
    let page = try await request("GET", "/signin").response
    let policy = try #require(page.headers.first { $0.name == "content-security-policy" }?.value)
    #expect(policy.contains("default-src 'none'") && policy.contains("script-src 'self'"))
    #expect(policy.contains("frame-ancestors 'none'") && policy.contains("form-action 'none'"))
    #expect(!policy.contains("unsafe") && !policy.contains("*") && !policy.contains("data:"))
    let html = String(decoding: page.body, as: UTF8.self)
    for inline in ["<style", "style=", "onclick=", "onload=", "javascript:", "http:", "https:"] {
      #expect(!html.contains(inline), "\(inline)")
    }
    #expect(html.components(of: "<script") == 1 && html.contains(#"<script src="/signin/screen.js" defer></script>"#))
    let script = String(decoding: try await request("GET", "/signin/screen.js").response.body, as: UTF8.self)
    for sink in [
      "innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "Function(", "localStorage",
    ] {
      #expect(!script.contains(sink), "\(sink)")
    }
  }
}

extension String {
  /// How often `part` occurs.
  fileprivate func components(of part: String) -> Int {
    split(separator: part, omittingEmptySubsequences: false).count - 1
  }
}
