import Cryptography
import GRPC
import LatchkeyProtos
import ServiceRuntime
import TestSupport
import Testing

@testable import IdentityService

@Suite("Policies")
struct PolicyServiceTests {
  private static let document = """
    {
      "version": 7,
      "gates": [
        {"action": "comment", "login": true, "prompt": "gate.comment"},
        {"action": "favourite", "login": true, "prompt": "gate.favourite"},
        {"action": "favourite", "login": false, "client": "app.reader"}
      ],
      "updates": [
        {"minimum": "2.0", "recommended": "2.4", "url": "https://get.test", "changelog": "Faster.", "view": "home"},
        {"client": "app.reader", "minimum": "5.1"}
      ]
    }
    """

  private func harness(_ text: String? = nil) async throws -> IdentityHarness {
    let folder = try TemporaryFolder()
    if let text { try SecretFile.replace("\(folder.path)/policies.json", Array(text.utf8)) }
    return try await IdentityHarness(folder: folder)
  }

  private func check(
    _ harness: IdentityHarness, _ action: String, _ tokens: CommonV1.TokenSet? = nil, client: String = "app.test"
  ) async throws -> IdentityV1.CheckAccessResponse {
    try await harness.access.checkAccess(
      IdentityV1.CheckAccessRequest(clientID: client, action: action),
      options: tokens == nil ? CallOptions() : .bearer(tokens))
  }

  @Test(
    "G7: a guest is asked to sign in at favourite, comment, buy and order, and an account is not",
    arguments: ["favourite", "comment", "buy", "order"])
  func gated(action: String) async throws {
    let harness = try await harness()
    let guest = try await harness.issueGuest(try TestDevice())
    let error = await expectRefusal(.permissionDenied, "LOGIN_REQUIRED") {
      try await check(harness, action, guest.tokens)
    }
    #expect(error?.details.info.contains(RPCError.KeyValue("prompt_key", "gate.\(action)")) == true)
    await expectRefusal(.permissionDenied, "LOGIN_REQUIRED") { try await check(harness, action) }
    let account = try await harness.register("ada@example.com", guest: guest.tokens)
    #expect(try await check(harness, action, account.tokens).access == .allowed)
  }

  @Test(
    "G7: share, feedback, add-to-cart and what no gate names never need a sign-in",
    arguments: ["share", "feedback", "add_to_cart", "look"])
  func open(action: String) async throws {
    let harness = try await harness()
    let guest = try await harness.issueGuest(try TestDevice())
    #expect(try await check(harness, action, guest.tokens).access == .allowed)
    #expect(try await check(harness, action).access == .allowed)
  }

  @Test("G7: which actions are gated is policy: an application has its own, and a changed document holds at once")
  func perApplication() async throws {
    let harness = try await harness(Self.document)
    await expectRefusal(.permissionDenied, "LOGIN_REQUIRED") { try await check(harness, "favourite") }
    #expect(try await check(harness, "favourite", client: "app.reader").access == .allowed)
    #expect(try await check(harness, "order").access == .allowed)

    let changed = #"{"version": 8, "gates": [{"action": "order", "login": true}]}"#
    try SecretFile.replace("\(harness.folder.path)/policies.json", Array(changed.utf8))
    harness.policies.refresh()
    #expect(try await check(harness, "favourite").policyVersion == 8)
    await expectRefusal(.permissionDenied, "LOGIN_REQUIRED") { try await check(harness, "order") }
  }

  @Test("G7: a document that is broken, or changed under the same version, changes nothing")
  func brokenDocument() async throws {
    let harness = try await harness(Self.document)
    let bad = [
      "{", #"{"version": 8, "gate": []}"#, #"{"version": 8, "gates": [{"action": "order"}]}"#,
      #"{"version": 7, "gates": []}"#, #"{"version": 1}"#, #"{"version": 9, "networks": {"permit": ["10.0.0.0/33"]}}"#,
    ]
    for text in bad {
      try SecretFile.replace("\(harness.folder.path)/policies.json", Array(text.utf8))
      harness.policies.refresh()
      #expect(harness.policies.current.version == 7, "\(text)")
      #expect(harness.policies.current.gates.count == 3, "\(text)")
    }
  }

  @Test("G8: each gate names its prompt, in a list with a version that a new guest is told")
  func prompts() async throws {
    let harness = try await harness(Self.document)
    let guest = try await harness.issueGuest(try TestDevice())
    #expect(guest.gatePolicyVersion == 7)
    let list = try await harness.access.getGatePolicy(IdentityV1.GetGatePolicyRequest(clientID: "app.reader"))
    #expect(list.version == 7)
    #expect(
      Set(list.gates.map { "\($0.action) \($0.loginRequired) \($0.promptKey)" })
        == ["favourite false ", "comment true gate.comment"])
    let known = try await harness.access.getGatePolicy(
      IdentityV1.GetGatePolicyRequest(clientID: "app.reader", knownVersion: 7))
    #expect(known.unchanged)
    #expect(known.gates.isEmpty)
  }

  @Test("P2: an access check of a token that ran out asks to renew it, not to sign in")
  func expiredToken() async throws {
    let harness = try await harness()
    let account = try await harness.register("ada@example.com")
    harness.clock.advance(by: .seconds(3600))
    await expectRefusal(.unauthenticated, "TOKEN_EXPIRED") { try await check(harness, "comment", account.tokens) }
  }

  @Test(
    "P3: an update is forced below the minimum, offered below the recommended version, and else not mentioned",
    arguments: [
      ("1.9.9", IdentityV1.UpdateTier.forced), ("2", .soft), ("2.3.9-beta", .soft), ("2.4", .none), ("10.0", .none),
    ])
  func tiers(version: String, tier: IdentityV1.UpdateTier) async throws {
    let harness = try await harness(Self.document)
    let answer = try await harness.access.getUpdatePolicy(
      IdentityV1.GetUpdatePolicyRequest(clientID: "app.test", appVersion: version))
    #expect(answer.tier == tier)
    #expect(answer.minVersion == "2.0")
    #expect(answer.updateURL == "https://get.test")
    #expect(answer.changelog == "Faster.")
    #expect(answer.minView == "home")
  }

  @Test("P4: every method but the one that tells about updates refuses an app below the minimum")
  func forced() async throws {
    let harness = try await harness(Self.document)
    let old = CallOptions(metadata: ["x-app-version": "1.9"])
    let channel = harness.channel
    for method in harness.rooms.routes.map(\.method) {
      if method.path == IdentityV1.PolicyServiceMethod.getUpdatePolicy.rawValue { continue }
      let error = await expectRefusal(.failedPrecondition, "UPGRADE_REQUIRED") {
        try await channel.begin(method, options: old)
      }
      #expect(error?.details.info.contains(RPCError.KeyValue("update_url", "https://get.test")) == true)
    }
    let told = try await harness.access.getUpdatePolicy(
      IdentityV1.GetUpdatePolicyRequest(clientID: "app.test", appVersion: "1.9"), options: old)
    #expect(told.tier == .forced)
  }

  @Test("P4: the minimum is the application's own where it has one, and a version that is none is refused")
  func forcedPerApplication() async throws {
    let harness = try await harness(Self.document)
    func call(_ version: String) async throws -> Int64 {
      try await harness.access.getGatePolicy(
        IdentityV1.GetGatePolicyRequest(clientID: "app.reader"),
        options: CallOptions(metadata: ["x-app-version": version])
      ).version
    }
    await expectRefusal(.failedPrecondition, "UPGRADE_REQUIRED") { try await call("app.reader/5.0.9") }
    #expect(try await call("app.reader/5.1") == 7)
    #expect(try await call("app.other/2.0") == 7)
    #expect(try await call("2.0") == 7)
    await expectRefusal(.invalidArgument, field: "x-app-version") { try await call("new") }
  }

  @Test("P5: a network that is not permitted is told from one that is, with the companion app to open")
  func networks() async throws {
    // The harness calls from 192.0.2.7.
    func document(_ version: Int, _ permit: String) -> String {
      """
      {"version": \(version), "networks": {"permit": [\(permit)],
        "companion": {"scheme": "vpn://open", "download": "https://vpn.test"}}}
      """
    }
    let harness = try await harness(document(2, #""10.0.0.0/8", "2001:db8::/32""#))
    let refused = try await check(harness, "share")
    #expect(refused.access == .networkNotPermitted)
    #expect(refused.companionApp?.schemeURL == "vpn://open")
    #expect(refused.companionApp?.downloadURL == "https://vpn.test")

    let folder = harness.folder.path
    try SecretFile.replace("\(folder)/policies.json", Array(document(3, #""192.0.2.0/29""#).utf8))
    harness.policies.refresh()
    // P6: the same check at the next foreground finds that all is well.
    let allowed = try await check(harness, "share")
    #expect(allowed.access == .allowed)
    #expect(allowed.companionApp == nil)
  }

  @Test("P6: a check may be repeated at each foreground without a sign-in and without an action")
  func repeated() async throws {
    let harness = try await harness()
    for _ in 0..<50 { #expect(try await check(harness, "").access == .allowed) }
  }

  @Test("P5: a prefix holds exactly the addresses that begin with it")
  func prefixes() throws {
    let cases: [(String, String, Bool)] = [
      ("10.0.0.0/8", "10.255.0.1", true), ("10.0.0.0/8", "11.0.0.1", false), ("0.0.0.0/0", "203.0.113.9", true),
      ("192.0.2.8/29", "192.0.2.7", false), ("192.0.2.8/29", "192.0.2.15", true),
      ("10.0.0.0/8", "::ffff:10.1.2.3", true),
      ("2001:db8::/33", "2001:db8:8000::1", false), ("2001:db8::/33", "2001:db8:7fff::1", true),
      ("::/0", "10.0.0.1", true), ("10.0.0.1/32", "", false),
    ]
    for (prefix, address, isInside) in cases {
      #expect(try NetworkPrefix(prefix).orThrow().contains(address) == isInside, "\(prefix) \(address)")
    }
    for text in ["10.0.0.0", "10.0.0.0/33", "10.0.0.0/-1", "example.com/8", "::/129", "/8", ""] {
      #expect(NetworkPrefix(text) == nil, "\(text)")
    }
  }
}
