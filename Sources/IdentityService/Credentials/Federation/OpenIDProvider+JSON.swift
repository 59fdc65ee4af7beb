import Cryptography
import JSON
import LatchkeyModel
import ServiceRuntime

extension OpenIDProvider {
  /// Reads the document that names the providers:
  ///
  ///     {"providers": [{"name": "example", "issuer": "https://id.example", "client_ids": ["my-app"],
  ///                     "algorithms": ["RS256"], "jwks_uri": "https://id.example/keys", "ca_file": "/etc/ca.pem"}]}
  ///
  /// The last three may be left out.
  package static func read(_ path: String) throws(ConfigurationError) -> [OpenIDProvider] {
    let bytes = try FileContents.read(path)
    guard let document = try? JSONValue(parsing: bytes), let list = document["providers"]?.array,
      document.members?.count == 1
    else { throw .file(path: path, reason: "must be a JSON object with a list of providers, and nothing else") }
    guard list.count <= Limits.providers else { throw .file(path: path, reason: "has too many providers") }
    var providers: [OpenIDProvider] = []
    for (index, entry) in list.enumerated() {
      let provider = try parse(entry) { reason in .file(path: path, reason: "providers[\(index)]: \(reason)") }
      guard !providers.contains(where: { $0.issuer == provider.issuer }) else {
        throw .file(path: path, reason: "providers[\(index)]: its issuer is another's as well")
      }
      providers.append(provider)
    }
    return providers
  }

  private static func parse(
    _ entry: JSONValue, _ error: (String) -> ConfigurationError
  ) throws(ConfigurationError) -> OpenIDProvider {
    guard let members = entry.members else { throw error("must be an object") }
    for member in members
    where !["name", "issuer", "client_ids", "algorithms", "jwks_uri", "ca_file"].contains(member.name) {
      throw error("\(member.name) is no member of a provider")
    }
    guard let name = entry["name"]?.string, let text = DisplayText(name) else {
      throw error("name must be one short line")
    }
    guard let issuer = entry["issuer"]?.string, isAcceptable(issuer) else {
      throw error("issuer must be an https address, or http on this machine")
    }
    guard let clientIDs = texts(entry["client_ids"]), !clientIDs.isEmpty, !clientIDs.contains("") else {
      throw error("client_ids must be a list of names, at least one")
    }
    var provider = OpenIDProvider(name: text.description, issuer: issuer, clientIDs: clientIDs)
    if let algorithms = entry["algorithms"] {
      let known = texts(algorithms)?.map { SignatureAlgorithm(rawValue: $0) } ?? []
      provider.algorithms = known.compactMap { $0 }
      guard !known.isEmpty, provider.algorithms.count == known.count else {
        throw error("algorithms must be a list of RS256 and ES256")
      }
    }
    if let address = entry["jwks_uri"] {
      guard let text = address.string, isAcceptable(text) else {
        throw error("jwks_uri must be an https address, or http on this machine")
      }
      provider.keysAddress = text
    }
    if let file = entry["ca_file"] {
      guard let text = file.string, FileContents.exists(text) else { throw error("ca_file must name a file") }
      provider.authoritiesFile = text
    }
    return provider
  }

  private static func texts(_ value: JSONValue?) -> [String]? {
    guard let values = value?.array else { return nil }
    let texts = values.compactMap(\.string)
    return texts.count == values.count ? texts : nil
  }
}
