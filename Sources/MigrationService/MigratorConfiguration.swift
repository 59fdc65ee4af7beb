import LatchkeyModel
import ServiceRuntime

/// The effective configuration of the migrator.
package typealias MigratorConfiguration = Configured<MigratorKeys>

/// The configuration keys that only the migrator reads: a key is one property here.
package struct MigratorKeys: ConfigurationKeys {
  package let collections = ConfigurationKey<CollectionRules>(
    "migration.collections",
    default: .strings(Self.standard),
    help: "how collections are merged: NAME=POLICY or NAME=POLICY:LARGEST_COUNT; any other is KEEP_TARGET"
  ) { value throws(ConfigurationError) in
    guard case .strings(let entries) = value else { throw Self.invalid("must be a list of texts") }
    return try Self.rules(entries)
  }

  package let guestRecords = Self.bound(
    "records.guestCount", default: Limits.guestBounds.records, help: "records that a guest may store")
  package let guestMebibytes = Self.bound(
    "records.guestMib", default: Limits.guestBounds.bytes >> 20, help: "MiB that a guest's records may hold")
  package let guestTotalMebibytes = Self.bound(
    "records.guestTotalMib", default: Limits.guestTotal >> 20,
    help:
      "MiB that the records of all guests may hold together, with 256 bytes for each; accounts store beyond that too")
  package let accountRecords = Self.bound(
    "records.accountCount", default: Limits.accountBounds.records,
    help: "records that an account may store; a migration moves its guest's records beyond that too")
  package let accountMebibytes = Self.bound(
    "records.accountMib", default: Limits.accountBounds.bytes >> 20,
    help: "MiB that an account's records may hold; a migration moves its guest's records beyond that too")

  package let undoWindow = ConfigurationKey.duration(
    "migration.undoWindow", default: Limits.undoWindow, in: .zero...Limits.longestUndoWindow,
    help: "how long a migration can be taken back; what its guest had is kept meanwhile; 0s for not at all")

  package init() {}

  private static func bound(_ name: String, default value: Int, help: String) -> ConfigurationKey<Int> {
    .integer(name, default: value, in: 1...1_000_000_000, help: help)
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
