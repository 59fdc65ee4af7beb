internal import JSON
internal import LatchkeyModel

/// The document as an operator writes it:
///
///     {
///       "version": 2,
///       "gates": [{"action": "comment", "login": true, "prompt": "gate.comment", "client": "app.ios"}],
///       "updates": [{"client": "app.ios", "minimum": "2.0", "recommended": "2.4", "url": "https://…",
///                    "changelog": "…", "view": "home"}],
///       "networks": {"permit": ["10.0.0.0/8"], "companion": {"scheme": "vpn://open", "download": "https://…"}}
///     }
///
/// Only `version`, an `action` with its `login`, and a companion's `scheme` and `download` must be there; without
/// `gates`, the built-in ones hold.
extension Policies {
  package init(parsing bytes: [UInt8]) throws(PolicyError) {
    let document: JSONValue
    do throws(JSONError) {
      document = try JSONValue(parsing: bytes)
    } catch {
      throw PolicyError("not JSON: \(error)")
    }
    let root = try Fields(document, "the document", allowed: ["version", "gates", "updates", "networks"])
    guard let version = root["version"]?.integer, version > Policies.builtIn.version else {
      throw PolicyError("version must be a whole number above \(Policies.builtIn.version)")
    }
    self = .builtIn
    self.version = version
    if let gates = try root.list("gates") {
      self.gates = []
      for gate in gates { self.gates.append(try Gate(gate)) }
    }
    for update in try root.list("updates") ?? [] { updates.append(try Update(update)) }
    guard let networks = root["networks"] else { return }
    let fields = try Fields(networks, "networks", allowed: ["permit", "companion"])
    for prefix in try fields.list("permit") ?? [] {
      guard let text = prefix.string, let network = NetworkPrefix(text) else {
        throw PolicyError("networks.permit must list networks such as 10.0.0.0/8")
      }
      permittedNetworks.append(network)
    }
    if let companion = fields["companion"] {
      let fields = try Fields(companion, "networks.companion", allowed: ["scheme", "download"])
      self.companion = Companion(
        schemeURL: try fields.requiredText("scheme"), downloadURL: try fields.requiredText("download"))
    }
  }
}

extension Policies.Gate {
  fileprivate init(_ value: JSONValue) throws(PolicyError) {
    let fields = try Fields(value, "a gate", allowed: ["action", "login", "prompt", "client"])
    action = try fields.requiredText("action")
    guard Policies.isAction(action) else {
      throw PolicyError("a gate's action must be lower-case letters, digits, '.', '_' or '-'")
    }
    guard let login = fields["login"]?.bool else { throw PolicyError("a gate's login must be true or false") }
    needsLogin = login
    promptKey = try fields.text("prompt") ?? (login ? "gate.\(action)" : "")
    client = try fields.client()
  }
}

extension Policies.Update {
  fileprivate init(_ value: JSONValue) throws(PolicyError) {
    let fields = try Fields(
      value, "an update", allowed: ["client", "minimum", "recommended", "url", "changelog", "view"])
    client = try fields.client()
    minimum = try fields.appVersion("minimum")
    recommended = try fields.appVersion("recommended")
    url = try fields.text("url") ?? ""
    changelog = try fields.text("changelog") ?? ""
    view = try fields.text("view") ?? ""
  }
}

extension Policies {
  /// The document that says this.
  var json: JSONValue {
    func member(_ name: String, _ text: String?) -> [JSONValue.Member] {
      guard let text, !text.isEmpty else { return [] }
      return [JSONValue.Member(name, .string(text))]
    }
    var members = [JSONValue.Member("version", .integer(version))]
    members.append(
      JSONValue.Member(
        "gates",
        .array(
          gates.map { gate in
            .object(
              [
                JSONValue.Member("action", .string(gate.action)), JSONValue.Member("login", .bool(gate.needsLogin)),
              ] + member("prompt", gate.promptKey) + member("client", gate.client?.description))
          })))
    if !updates.isEmpty {
      members.append(
        JSONValue.Member(
          "updates",
          .array(
            updates.map { update in
              .object(
                member("client", update.client?.description) + member("minimum", update.minimum?.description)
                  + member("recommended", update.recommended?.description) + member("url", update.url)
                  + member("changelog", update.changelog) + member("view", update.view))
            })))
    }
    var networks: [JSONValue.Member] = []
    if !permittedNetworks.isEmpty {
      networks.append(JSONValue.Member("permit", .array(permittedNetworks.map { .string($0.text) })))
    }
    if let companion {
      networks.append(
        JSONValue.Member(
          "companion",
          .object(member("scheme", companion.schemeURL) + member("download", companion.downloadURL))))
    }
    if !networks.isEmpty { members.append(JSONValue.Member("networks", .object(networks))) }
    return .object(members)
  }

  /// Whether the text can name an action.
  package static func isAction(_ text: String) -> Bool {
    // The same characters as a client's id has, for the same reason: they mean the same everywhere.
    ClientID(text) != nil
  }
}

/// The members of an object, none of which is unknown.
private struct Fields {
  private let value: JSONValue
  private let name: String

  init(_ value: JSONValue, _ name: String, allowed: Set<String>) throws(PolicyError) {
    guard let members = value.members else { throw PolicyError("\(name) must be an object") }
    for member in members where !allowed.contains(member.name) {
      throw PolicyError("\(name) has no member \(member.name)")
    }
    self.value = value
    self.name = name
  }

  subscript(member: String) -> JSONValue? { value[member] }

  func list(_ member: String) throws(PolicyError) -> [JSONValue]? {
    guard let value = value[member] else { return nil }
    guard let elements = value.array, elements.count <= Limits.policyEntries else {
      throw PolicyError("\(name): \(member) must be a list of at most \(Limits.policyEntries)")
    }
    return elements
  }

  func text(_ member: String) throws(PolicyError) -> String? {
    guard let value = value[member] else { return nil }
    guard let text = value.string, text.utf8.count <= Limits.policyTextBytes else {
      throw PolicyError("\(name): \(member) must be a text of at most \(Limits.policyTextBytes) bytes")
    }
    return text
  }

  func requiredText(_ member: String) throws(PolicyError) -> String {
    guard let text = try text(member), !text.isEmpty else { throw PolicyError("\(name): \(member) is missing") }
    return text
  }

  func client() throws(PolicyError) -> ClientID? {
    guard let text = try text("client") else { return nil }
    guard let client = ClientID(text) else { throw PolicyError("\(name): client is no client's id") }
    return client
  }

  func appVersion(_ member: String) throws(PolicyError) -> AppVersion? {
    guard let text = try text(member) else { return nil }
    guard let version = AppVersion(text) else { throw PolicyError("\(name): \(member) must be a version, such as 2.1") }
    return version
  }
}
