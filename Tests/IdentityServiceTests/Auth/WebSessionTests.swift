import GRPC
import JSON
import LatchkeyModel
import LatchkeyProtos
import Testing
import TransportServer

@testable import IdentityService

@Suite("Web sessions")
struct WebSessionTests {
  private func create(
    _ harness: IdentityHarness, _ tokens: CommonV1.TokenSet?
  ) async throws -> IdentityV1.CreateWebSessionResponse {
    try await harness.auth.createWebSession(IdentityV1.CreateWebSessionRequest(), options: .bearer(tokens))
  }

  private func visit(_ harness: IdentityHarness, cookie: String?) async throws -> (status: Int, json: JSONValue) {
    let headers = cookie.map { [(name: "cookie", value: $0)] } ?? []
    let response = await harness.rooms.webSessions.page.handle(
      PageRequest(method: "GET", path: "/web-session", headers: headers, peerAddress: "192.0.2.7"))
    #expect(response.headers.contains { $0 == ("cache-control", "no-store") })
    return (response.status, try JSONValue(parsing: response.body))
  }

  @Test("P14: a web session is a cookie for an hour, HttpOnly and for this site, that the page recognises")
  func cookie() async throws {
    let harness = try await IdentityHarness()
    let account = try await harness.register("ada@example.com")
    let cookie = try await create(harness, account.tokens)
    #expect(cookie.maxAge == 3600 && cookie.path == "/" && cookie.httpOnly && cookie.sameSite == "Lax")
    #expect(cookie.domain == "" && !cookie.secure && cookie.name == "latchkey_session")
    #expect(
      cookie.setCookie == "latchkey_session=\(cookie.value); Path=/; Max-Age=3600; HttpOnly; SameSite=Lax")
    let seen = try await visit(harness, cookie: "theme=dark; latchkey_session=\(cookie.value)")
    #expect(seen.status == 200 && seen.json["sub"]?.string == account.subject?.sub)
    #expect(seen.json["name"]?.string == "Ada" && seen.json["expires_in"]?.integer == 3600)
    #expect(seen.json["is_guest"] == .bool(false))
    harness.clock.advance(by: .seconds(3599))
    #expect(try await visit(harness, cookie: "latchkey_session=\(cookie.value)").status == 200)
    harness.clock.advance(by: .seconds(1))
    #expect(try await visit(harness, cookie: "latchkey_session=\(cookie.value)").status == 401)
  }

  @Test("P14: the cookie ends with its session, and with its owner, also after a restart")
  func ends() async throws {
    var harness = try await IdentityHarness()
    let account = try await harness.register("ada@example.com")
    let other = try await harness.signIn("ada@example.com")
    let cookies = [try await create(harness, account.tokens), try await create(harness, other.tokens)]
    harness = try await harness.restarted()
    #expect(try await visit(harness, cookie: "latchkey_session=\(cookies[0].value)").status == 200)
    _ = try await harness.logOut(account.tokens)
    #expect(try await visit(harness, cookie: "latchkey_session=\(cookies[0].value)").status == 401)
    #expect(try await visit(harness, cookie: "latchkey_session=\(cookies[1].value)").status == 200)
    _ = try await harness.admin.disableSubject(
      IdentityV1.DisableSubjectRequest(sub: account.subject?.sub ?? ""), options: .service)
    #expect(try await visit(harness, cookie: "latchkey_session=\(cookies[1].value)").status == 401)
  }

  @Test("P14: a cookie that was changed anywhere, or is none, opens nothing")
  func forged() async throws {
    let harness = try await IdentityHarness()
    let guest = try await harness.issueGuest(try TestDevice())
    let value = try await create(harness, guest.tokens).value
    #expect(try await visit(harness, cookie: "latchkey_session=\(value)").json["is_guest"] == .bool(true))
    for index in value.utf8.indices {
      var bytes = Array(value.utf8)
      let position = value.utf8.distance(from: value.utf8.startIndex, to: index)
      bytes[position] = bytes[position] == UInt8(ascii: "A") ? UInt8(ascii: "E") : UInt8(ascii: "A")
      let changed = String(decoding: bytes, as: UTF8.self)
      #expect(try await visit(harness, cookie: "latchkey_session=\(changed)").status == 401)
    }
    for cookie in [nil, "", ";;=;", "latchkey_session", "latchkey_session=", "other=\(value)", "latchkey_session=é"] {
      #expect(try await visit(harness, cookie: cookie).status == 401)
    }
  }

  @Test("P14: over https the cookie is Secure and of the host alone, or of the domain that is configured")
  func secure() throws {
    let key = RedactedSecret([UInt8](repeating: 1, count: 32))
    let host = WebCookies(key: key, lifetime: .seconds(3600), issuer: "https://id.example.com", domain: nil)
    #expect(host.isSecure && host.name == "__Host-latchkey")
    let domain = WebCookies(
      key: key, lifetime: .seconds(3600), issuer: "https://id.example.com", domain: "example.com")
    #expect(domain.name == "latchkey_session")
    let cookie = WebCookies.Cookie(
      value: "v", expiry: Timestamp(secondsSinceEpoch: 1), maximumAge: .seconds(3600))
    #expect(
      domain.header(cookie)
        == "latchkey_session=v; Path=/; Max-Age=3600; HttpOnly; SameSite=Lax; Secure; Domain=example.com")
    for bad in ["", "com", "Example.com", "a..b", "-a.b", "a b.c", ".example.com"] {
      #expect(!IdentityKeys.isDomain(bad), "\(bad)")
    }
    #expect(IdentityKeys.isDomain("example.com"))
  }

  @Test("R22: a session whose tokens are bound to a key gives no cookie to a caller without the key")
  func bound() async throws {
    let harness = try await IdentityHarness()
    let account = try await harness.register("ada@example.com")
    let screen = try await harness.grants.issueForQr(
      IdentityV1.IssueForQrRequest(
        qrSessionID: "qr-1", sub: account.subject?.sub ?? "", confirmedBySid: account.tokens?.sid ?? "",
        clientID: "desktop", deviceKey: try TestDevice().jwk),
      options: .service)
    let session = try await harness.core.session(try SessionID(screen.tokens.orThrow().sid).orThrow())
    #expect(session?.boundKeyThumbprint != nil)
    await expectRefusal(.unauthenticated) { try await create(harness, screen.tokens) }
  }
}
