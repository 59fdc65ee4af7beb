import LatchkeyModel
import Storage

/// The merge of one record of a guest into what the account has: the one step of APPLY and of who decides a conflict.
/// ``RecordLayers`` takes it again when a merge beneath it is taken out.
struct RecordMerge {
  /// The guest's record.
  let source: RecordName
  let decision: MergeDecision
  /// Where the account has it.
  let target: RecordName
  /// What the account had there.
  let over: (content: RecordContent, revision: Int64)?

  /// - Parameters:
  ///   - held: what the account has under the guest's name.
  ///   - freeName: where APPEND puts it; nil where there is no such place.
  init(
    _ content: RecordContent,
    named source: RecordName,
    into held: (content: RecordContent, revision: Int64)?,
    by policy: MigrationPolicy,
    hasRoom: Bool,
    freeName: RecordName?
  ) {
    self.source = source
    let decision = policy.merge(content, into: held?.content, hasRoom: hasRoom)
    switch (decision, freeName) {
    case (.append, let freeName?): (self.decision, target, over) = (decision, freeName, nil)
    case (.append, nil): (self.decision, target, over) = (.refuse(.noKey), source, held)
    default: (self.decision, target, over) = (decision, source, held)
    }
  }

  /// The guest's record is dropped, whatever the account has.
  init(dropping source: RecordName, over held: (content: RecordContent, revision: Int64)?) {
    (self.source, decision, target, over) = (source, .keep, source, held)
  }

  /// What is written by it, at its place among all that is merged into the account.
  func write(_ change: inout RecordChange, at position: Int64) {
    guard let content = decision.content else { return }
    change.write(
      RecordDraft(name: target, content: content), over: over?.content.value.count, revision: position)
  }

  /// What is remembered of it, so that it can be taken back.
  ///
  /// - Parameter policy: by which somebody decided about this one record.
  func remembered(at position: Int64, decidedBy policy: MigrationPolicy? = nil) -> MergedRecord {
    var record = MergedRecord(name: source, outcome: decision.outcome, policy: policy)
    guard decision.conflict == nil else { return record }
    record.position = position
    record.found = over?.revision ?? 0
    if target != source { record.targetKey = target.key }
    // What was not changed needs no memory of how it was.
    if decision.content != nil { (record.revision, record.old) = (position, over?.content) }
    return record
  }
}
