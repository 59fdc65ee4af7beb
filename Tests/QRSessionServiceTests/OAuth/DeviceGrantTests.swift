import GRPC
import JSON
import LatchkeyModel
import LatchkeyProtos
import Logging
import ServiceRuntime
import TestSupport
import Testing
import TransportServer

@testable import QRSessionService

@Suite struct DeviceGrantTests {
  private let harness: Harness
  private let pages: [Page]
  private let folder: TemporaryFolder
  private let policies: PolicyFile

  private static let challenge = ["code_challenge": Harness.challenge, "code_challenge_method": "S256"]

  init() throws {
    harness = try Harness {
      $0.clients?.formUnion(["old-tv", "named-tv"].compactMap { ClientID($0) })
      $0.clientsWithoutPKCE = Set(["old-tv"].compactMap { ClientID($0) })
      if let client = ClientID("named-tv") { $0.clientNames[client] = DisplayText("Ada's cinema") }
    }
    folder = try TemporaryFolder()
    policies = try PolicyFile(
      path: folder.file("policies.json"), logger: Logger(label: "tests", factory: { _ in SwiftLogNoOpLogHandler() }))
    pages =
      DeviceGrantPages(
        api: harness.api, jwksURI: "https://id.example/.well-known/jwks.json",
        appVersions: AppVersionInterceptor(policies: policies)
      ).pages
  }

  @Test("P4: an app that says that it is too old is refused here as by the RPCs, and one that says nothing is served")
  func forcedUpdate() async throws {
    let document = """
      {"version": 2, "updates": [{"client": "latchkey-demo", "minimum": "2.0", "url": "https://get.example"}]}
      """
    #expect(policies.replace(Array(document.utf8)) == nil)
    let form = (name: "content-type", value: "application/x-www-form-urlencoded")
    let parameters = Self.challenge.merging(["client_id": "latchkey-demo"]) { $1 }
    for (version, error) in [("latchkey-demo/1.9", "unauthorized_client"), ("1.x", "invalid_request")] {
      for path in ["/oauth/device_authorization", "/oauth/token"] {
        let answer = try await post(path, parameters, headers: [form, (name: "x-app-version", value: version)])
        #expect(answer.status == 400 && answer.error == error, "\(version) at \(path)")
      }
    }
    let current = try await post(
      "/oauth/device_authorization", parameters, headers: [form, (name: "x-app-version", value: "latchkey-demo/2.0")])
    #expect(current.status == 200)
    #expect(try await authorize().status == 200)
  }

  private struct Answer {
    let status: Int
    let headers: [(name: String, value: String)]
    let json: JSONValue

    var error: String? { json["error"]?.string }
  }

  private func post(
    _ path: String,
    _ parameters: [String: String],
    headers: [(name: String, value: String)] = [("content-type", "application/x-www-form-urlencoded")]
  ) async throws -> Answer {
    let body = parameters.map { "\($0)=\($1)" }.joined(separator: "&")
    let page = try #require(pages.first { $0.path == path && $0.method == "POST" })
    let response = await page.handle(
      PageRequest(method: "POST", path: path, headers: headers, body: Array(body.utf8), peerAddress: "203.0.113.7")
    )
    return Answer(
      status: response.status,
      headers: response.headers,
      json: try JSONValue(parsing: response.body)
    )
  }

  private func authorize(_ more: [String: String] = [:]) async throws -> Answer {
    try await post(
      "/oauth/device_authorization",
      Self.challenge.merging(["client_id": "latchkey-demo", "scope": "profile"]) { $1 }.merging(more) { $1 }
    )
  }

  private func token(_ authorized: Answer, _ more: [String: String] = [:]) async throws -> Answer {
    try await post(
      "/oauth/token",
      [
        "grant_type": DeviceGrantPages.grantType.replacingColons,
        "device_code": authorized.json["device_code"]?.string ?? "",
        "client_id": "latchkey-demo",
        "code_verifier": Harness.verifier,
      ].merging(more) { $1 }
    )
  }

  private func confirm(_ authorized: Answer) async throws {
    let scanned = try await harness.api.scanSession(
      QRV1.ScanSessionRequest(code: .userCode(authorized.json["user_code"]?.string ?? "")),
      context: .phone()
    )
    try await harness.confirm(scanned)
  }

  @Test("RFC 8628: pending, slow_down, then the tokens, with PKCE, or without for a client that is listed")
  func stockClient() async throws {
    for plain in [false, true] { try await flow(plain) }
  }

  private func flow(_ plain: Bool) async throws {
    let own = plain ? ["client_id": "old-tv", "code_verifier": ""] : [:]
    let bare = ["code_challenge": "", "code_challenge_method": ""].merging(own) { $1 }
    let authorized = try await authorize(plain ? bare : [:])
    #expect(authorized.status == 200)
    #expect(authorized.json["verification_uri"]?.string == "https://login.example/q")
    #expect(authorized.json["expires_in"]?.integer == 120)
    #expect(authorized.json["interval"]?.integer == 5)
    #expect(authorized.headers.contains { $0 == ("cache-control", "no-store") })

    let pending = try await token(authorized, own)
    #expect(pending.status == 400)
    #expect(pending.error == "authorization_pending")
    let rushed = try await token(authorized, own)
    #expect(rushed.error == "slow_down")
    #expect(rushed.headers.contains { $0 == ("retry-after", "10") })

    try await confirm(authorized)
    let granted = try await token(authorized, own)
    #expect(granted.status == 200)
    #expect(granted.json["access_token"]?.string == (plain ? "token-2" : "token-1"))
    #expect(granted.json["token_type"]?.string == "Bearer")
    #expect(granted.json["scope"]?.string == "profile")
  }

  @Test("S3: a client that sent a challenge must bring its verifier; the device code alone is not enough")
  func pkce() async throws {
    let authorized = try await authorize(["code_challenge": Harness.challenge, "code_challenge_method": "S256"])
    try await confirm(authorized)
    #expect(try await token(authorized, ["code_verifier": ""]).error == "invalid_grant")
    #expect(harness.grants.issuedCount == 0)
    #expect(try await token(authorized).status == 200)
    #expect(try await authorize(["code_challenge_method": "plain", "code_challenge": "x"]).error == "invalid_request")
    #expect(try await authorize(["code_challenge": ""]).error == "invalid_request")
  }

  @Test("S28: without a code challenge nobody gets a code, and the refusal says what is missing")
  func pkceIsRequired() async throws {
    let plain = try await post("/oauth/device_authorization", ["client_id": "latchkey-demo"])
    #expect(plain.status == 400)
    #expect(plain.error == "invalid_request")
    #expect(plain.json["error_description"]?.string?.contains("code_challenge") == true)
    #expect(harness.audited.isEmpty)
    // Nor does a stranger get one, who is told that and nothing else; nor a method that is none.
    #expect(try await post("/oauth/device_authorization", ["client_id": "stranger"]).error == "invalid_client")
    #expect(try await authorize(["code_challenge_method": "plain"]).error == "invalid_request")
  }

  @Test("S28: the phone is shown who asks: the client, its platform and its network, never an empty initiator")
  func initiatorIsShown() async throws {
    let form = (name: "content-type", value: "application/x-www-form-urlencoded")
    let pkce = ["code_challenge": Harness.challenge, "code_challenge_method": "S256", "client_id": "latchkey-demo"]
    for (agent, platform) in [
      ("player/2.1 (Linux; Android 15; TV) okhttp/5.0", "Android"), ("curl/8.5.0", ""),
      ("Mozilla/5.0 (Windows NT)", "Windows"),
      ("\u{202E}evil", ""),
    ] {
      let authorized = try await post(
        "/oauth/device_authorization", pkce, headers: [form, (name: "user-agent", value: agent)])
      let scanned = try await scan(authorized)
      #expect(scanned.initiator?.label == "latchkey-demo")
      #expect(scanned.initiator?.platform == platform)
      #expect(scanned.clientID == "latchkey-demo")
      #expect(scanned.risk?.network == "203.0.113.0/24")
    }
  }

  @Test("S8, S28: an initiator that says nothing of itself is shown by its client's registered name, by RPC as well")
  func registeredName() async throws {
    let authorized = try await authorize(["client_id": "named-tv"])
    #expect(try await scan(authorized).initiator?.label == "Ada's cinema")
    let issued = try await harness.issue {
      $0.clientID = "named-tv"
      $0.initiator = nil
    }
    #expect(try await harness.scan(issued).initiator?.label == "Ada's cinema")
  }

  @Test("S28: a phone on another network asks for digits that an OAuth screen can show")
  func digits() async throws {
    let authorized = try await authorize()
    let scanned = try await harness.api.scanSession(
      QRV1.ScanSessionRequest(code: .userCode(authorized.json["user_code"]?.string ?? "")),
      context: .phone(address: "198.51.100.1"))
    #expect(scanned.needsCheckCode)
    try await harness.confirm(
      scanned, checkCode: authorized.json["check_code"]?.string ?? "", as: .phone(address: "198.51.100.1"))
    #expect(try await token(authorized).status == 200)
  }

  @Test("S28: a screen that asks by OAuth gets no hold of the account, whatever it asks for")
  func scopeIsNarrowed() async throws {
    let pkce = ["code_challenge": Harness.challenge, "code_challenge_method": "S256"]
    for (asked, shown) in [
      ("account", "basic profile"), ("profile+account", "profile"), ("", "basic profile"), ("records", "records"),
    ] {
      let authorized = try await authorize(pkce.merging(["scope": asked]) { $1 })
      #expect(try await scan(authorized).scope == shown, "\(asked)")
    }
  }

  private func scan(_ authorized: Answer) async throws -> QRV1.ScanSessionResponse {
    try await harness.api.scanSession(
      QRV1.ScanSessionRequest(code: .userCode(authorized.json["user_code"]?.string ?? "")),
      context: .phone()
    )
  }

  @Test("A code is redeemed by the client it was given to, and no other")
  func otherClient() async throws {
    let authorized = try await authorize()
    try await confirm(authorized)
    #expect(try await token(authorized, ["client_id": "other"]).error == "invalid_grant")
    #expect(harness.grants.issuedCount == 0)
    #expect(try await token(authorized).status == 200)
    // Not the same answer again either.
    #expect(try await token(authorized, ["client_id": "other"]).error == "invalid_grant")
  }

  @Test("Refused and expired codes say so")
  func endings() async throws {
    let denied = try await authorize()
    let scanned = try await harness.api.scanSession(
      QRV1.ScanSessionRequest(code: .userCode(denied.json["user_code"]?.string ?? "")),
      context: .phone()
    )
    try await harness.deny(scanned)
    #expect(try await token(denied).error == "access_denied")
    let late = try await authorize()
    harness.clock.move(by: .seconds(120))
    #expect(try await token(late).error == "expired_token")
  }

  @Test("Requests that are no requests get their OAuth error")
  func invalidRequests() async throws {
    let authorized = try await authorize()
    #expect(try await post("/oauth/device_authorization", [:]).error == "invalid_request")
    let stranger = try await post("/oauth/device_authorization", ["client_id": "stranger"])
    #expect(stranger.error == "invalid_client")
    #expect(stranger.status == 401)
    #expect(try await authorize(["scope": "a%22b"]).error == "invalid_scope")
    #expect(try await token(authorized, ["grant_type": "password"]).error == "unsupported_grant_type")
    #expect(try await token(authorized, ["device_code": "nobody"]).error == "invalid_grant")
    #expect(try await token(authorized, ["device_code": ""]).error == "invalid_request")
    let json = try await post(
      "/oauth/token",
      ["grant_type": "x"],
      headers: [("content-type", "application/json")]
    )
    #expect(json.error == "invalid_request")
    let basic = try await post(
      "/oauth/token",
      ["grant_type": "x"],
      headers: [("content-type", "application/x-www-form-urlencoded"), ("authorization", "Basic YTpi")]
    )
    #expect(basic.error == "invalid_client")
  }

  @Test("RFC 8414: the metadata name the endpoints that are there")
  func metadata() async throws {
    let page = try #require(pages.first { $0.path == "/.well-known/oauth-authorization-server" })
    let response = await page.handle(PageRequest(method: "GET", path: page.path, peerAddress: "203.0.113.7"))
    let json = try JSONValue(parsing: response.body)
    #expect(json["issuer"]?.string == "https://login.example")
    for (member, path) in [
      ("device_authorization_endpoint", "/oauth/device_authorization"), ("token_endpoint", "/oauth/token"),
    ] {
      #expect(json[member]?.string == "https://login.example" + path)
      #expect(pages.contains { $0.path == path })
    }
    #expect(json["grant_types_supported"]?.array?.compactMap(\.string) == [DeviceGrantPages.grantType])
  }
}

extension String {
  fileprivate var replacingColons: String {
    split(separator: ":", omittingEmptySubsequences: false).joined(separator: "%3A")
  }
}
