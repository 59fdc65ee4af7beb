/// What a migration would do, as of one state of both subjects' records.
package struct MigrationPlan: Sendable, Equatable {
  package struct Collection: Sendable, Equatable {
    package let name: CollectionName
    package let rule: CollectionRules.Rule
    package let sourceCount: Int
    package let targetCount: Int
    /// Keys that both hold.
    package let conflicts: Int
    /// Conflicts whose numbers cannot be added.
    package let overflows: Int

    package init(
      name: CollectionName,
      rule: CollectionRules.Rule,
      sourceCount: Int,
      targetCount: Int,
      conflicts: Int,
      overflows: Int
    ) {
      self.name = name
      self.rule = rule
      self.sourceCount = sourceCount
      self.targetCount = targetCount
      self.conflicts = conflicts
      self.overflows = overflows
    }

    /// Records that the account would not take.
    package var refused: Int {
      // Beside the account's record a guest's of the same name needs room too.
      let new = rule.policy == .append ? sourceCount : sourceCount - conflicts
      let beyond = rule.maximumRows.map { max(0, new - max(0, $0 - targetCount)) } ?? 0
      return beyond + (rule.policy == .sum ? overflows : 0)
    }
  }

  package let guest: SubjectID
  package let target: SubjectID
  /// How often the records of each had been written: a plan holds only as long as neither changes.
  package let guestVersion: Int64
  package let targetVersion: Int64
  /// The person signs in on this device for the first time. The app moves its files whole then, and merges otherwise.
  package let isFirstLoginOnDevice: Bool
  /// In the order of their names.
  package let collections: [Collection]

  package init(
    guest: SubjectID,
    target: SubjectID,
    guestVersion: Int64,
    targetVersion: Int64,
    isFirstLoginOnDevice: Bool,
    collections: [Collection]
  ) {
    self.guest = guest
    self.target = target
    self.guestVersion = guestVersion
    self.targetVersion = targetVersion
    self.isFirstLoginOnDevice = isFirstLoginOnDevice
    self.collections = collections.sorted { $0.name < $1.name }
  }

  /// Everything that the plan depends on and decides, in one form: its hash is the plan's digest. Each part is
  /// preceded by its length, so that no two plans share a form.
  package var canonicalForm: [UInt8] {
    var form: [UInt8] = []
    func add(_ bytes: [UInt8]) {
      form += withLength(bytes)
    }
    func add(_ number: Int64) { add(Array(String(number).utf8)) }
    add(Array("latchkey-migration-plan-v1".utf8))
    add(guest.bytes)
    add(target.bytes)
    add(guestVersion)
    add(targetVersion)
    add(isFirstLoginOnDevice ? 1 : 0)
    for collection in collections {
      add(Array(collection.name.description.utf8))
      add(Array(collection.rule.policy.rawValue.utf8))
      add(Int64(collection.rule.maximumRows ?? -1))
      add(Int64(collection.sourceCount))
      add(Int64(collection.targetCount))
      add(Int64(collection.conflicts))
      add(Int64(collection.overflows))
    }
    return form
  }

  private func withLength(_ bytes: [UInt8]) -> [UInt8] {
    stride(from: 24, through: 0, by: -8).map { UInt8(truncatingIfNeeded: bytes.count >> $0) } + bytes
  }
}
