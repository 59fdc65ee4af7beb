/// What becomes of a guest's record when it meets the account's record of the same name.
///
/// The raw value is how configuration and storage name the policy.
package enum MigrationPolicy: String, Sendable, CaseIterable {
  /// The account's record stays.
  case keepTarget = "KEEP_TARGET"
  /// The guest's record replaces the account's.
  case keepSource = "KEEP_SOURCE"
  /// The record with the later time stays; the account's when the times are the same.
  case newest = "NEWEST"
  /// The union of both sets of keys. A key that both hold stays once, as the account has it, with the later time.
  case unionByKey = "UNION_BY_KEY"
  /// The numbers are added; the rest comes from the record with the later time.
  case sum = "SUM"
  /// The record with the larger number stays; the account's when the numbers are the same.
  case max = "MAX"
  /// Both records stay, the guest's under a key of its own.
  case append = "APPEND"
  /// The account's record stays, and the guest's is set aside until a person has decided.
  case ask = "ASK"

  /// How the messages number it.
  package var number: Int32 {
    switch self {
    case .keepTarget: 1
    case .keepSource: 2
    case .newest: 3
    case .unionByKey: 4
    case .sum: 5
    case .max: 6
    case .append: 7
    case .ask: 8
    }
  }

  /// What to do with `source`, given what the account holds under the same name. Pure: the same two records always
  /// lead to the same decision. `hasRoom` says whether the account may take one more record in the collection.
  package func merge(_ source: RecordContent, into target: RecordContent?, hasRoom: Bool) -> MergeDecision {
    guard let target else { return hasRoom ? .move(source) : .refuse(.noRoom) }
    let sourceIsNewer = source.updatedAt > target.updatedAt
    switch self {
    case .keepTarget:
      return .keep
    case .keepSource:
      return .replace(source)
    case .newest:
      return sourceIsNewer ? .replace(source) : .keep
    case .unionByKey:
      var united = target
      if sourceIsNewer { united.updatedAt = source.updatedAt }
      return .combine(united)
    case .sum:
      let (sum, overflows) = source.number.addingReportingOverflow(target.number)
      if overflows { return .refuse(.overflow) }
      var added = sourceIsNewer ? source : target
      added.number = sum
      return .combine(added)
    case .max:
      return .combine(source.number > target.number ? source : target)
    case .append:
      return hasRoom ? .append(source) : .refuse(.noRoom)
    case .ask:
      return .ask
    }
  }
}
