import LatchkeyModel
import ServiceRuntime

/// The configuration keys that only the migrator reads.
package enum MigratorKeys {
  package static let collections = ConfigurationKey<CollectionRules>(
    "migration.collections",
    default: .strings(standard),
    help: "how collections are merged: NAME=POLICY or NAME=POLICY:LARGEST_COUNT; any other is KEEP_TARGET"
  ) { value throws(ConfigurationError) in
    guard case .strings(let entries) = value else { throw invalid("must be a list of texts") }
    return try rules(entries)
  }

  private static let standard = CollectionRules.standard.rules
    .sorted { $0.key < $1.key }
    .map { "\($0.key)=\($0.value.policy.rawValue)" }

  private static func rules(_ entries: [String]) throws(ConfigurationError) -> CollectionRules {
    var rules: [CollectionName: CollectionRules.Rule] = [:]
    for entry in entries {
      let sides = entry.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
      guard sides.count == 2, let name = CollectionName(String(sides[0])) else {
        throw invalid("\"\(entry)\" is not NAME=POLICY with a name of lower-case letters, digits, '_' or '-'")
      }
      guard rules[name] == nil else { throw invalid("\"\(name)\" is named twice") }
      let parts = sides[1].split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false)
      guard let policy = MigrationPolicy(rawValue: String(parts[0])) else {
        let names = MigrationPolicy.allCases.map(\.rawValue).joined(separator: ", ")
        throw invalid("\"\(entry)\" names no policy; policies are \(names)")
      }
      var rule = CollectionRules.Rule(policy: policy)
      if parts.count == 2 {
        guard let count = Int(parts[1]), count >= 0 else { throw invalid("\"\(entry)\" has no count after the colon") }
        rule.maximumRows = count
      }
      rules[name] = rule
    }
    return CollectionRules(rules)
  }

  private static func invalid(_ reason: String) -> ConfigurationError {
    .invalidValue(key: "migration.collections", reason: reason)
  }
}
