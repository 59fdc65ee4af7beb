/// The steps of a migration, in their order. The raw value is how storage names the step.
package enum MigrationStep: String, Sendable, CaseIterable {
  /// The guest's records can no longer be changed.
  case freeze
  /// They are counted.
  case snapshot
  /// They are merged into the account's.
  case apply
  /// Each of them is found accounted for exactly once.
  case verify
  /// The guest's sessions end and its subject resolves to the account.
  case `switch`
  /// The guest's records are deleted.
  case purge
}
