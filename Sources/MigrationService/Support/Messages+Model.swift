import Domain
import LatchkeyModel
import LatchkeyProtos
import Storage

extension GoogleProtobuf.Timestamp {
  init(_ time: Timestamp) {
    self.init(millisecondsSinceEpoch: time.millisecondsSinceEpoch)
  }
}

extension MigrationPolicy {
  /// Nil for no policy, and for numbers of later releases.
  init?(_ policy: MigrationV1.Policy) {
    guard let known = Self.allCases.first(where: { $0.number == policy.rawValue }) else { return nil }
    self = known
  }
}

extension MigrationV1.Policy {
  init(_ policy: MigrationPolicy) { self.init(rawValue: policy.number) }
}

extension MigrationV1.Step {
  init(_ step: MigrationStep) {
    self =
      switch step {
      case .freeze: .freeze
      case .snapshot: .snapshot
      case .apply: .apply
      case .verify: .verify
      case .switch: .switch
      case .purge: .purge
      }
  }
}

extension MigrationV1.Record {
  init(_ record: Record) {
    self.init(
      collection: record.name.collection.description,
      key: record.name.key.description,
      value: record.content.value,
      number: record.content.number,
      updatedAt: GoogleProtobuf.Timestamp(record.content.updatedAt),
      revision: record.revision)
  }
}

extension MigrationV1.CollectionPlan {
  init(_ collection: MigrationPlan.Collection) {
    self.init(
      name: collection.name.description,
      sourceCount: Int64(collection.sourceCount),
      targetCount: Int64(collection.targetCount),
      conflicts: Int64(collection.conflicts),
      policy: MigrationV1.Policy(collection.rule.policy),
      refused: Int64(collection.refused))
  }
}

extension MigrationV1.CollectionReport {
  init(_ collection: FindMigration.Report.Collection) {
    let report = collection.report
    self.init(
      name: report.collection.description,
      policy: MigrationV1.Policy(report.policy),
      moved: Int64(report[.moved]),
      kept: Int64(report[.kept]),
      replaced: Int64(report[.replaced]),
      summed: Int64(report[.summed]),
      refused: Int64(report[.refused]),
      targetCount: Int64(collection.targetCount),
      asked: Int64(report[.asked]),
      remained: Int64(report.remained))
  }
}

extension MigrationV1.Migration {
  /// `hindrance` says why a migration that is under way does not move on.
  init(_ report: FindMigration.Report, hindrance: String?) {
    self.init(report.migration, report: report.collections.map { MigrationV1.CollectionReport($0) })
    if failure.isEmpty, !report.migration.isFinished { failure = hindrance ?? "" }
  }

  init(_ migration: Migration, report: [MigrationV1.CollectionReport] = []) {
    var state = MigrationV1.MigrationState.running
    var failure = migration.undoRefusal ?? ""
    var finishedAt: Timestamp?
    switch migration.state {
    // Frozen by the call that started it, and not yet counted: no worker has had it.
    case .freezing, .counting: state = .queued
    case .applying, .verifying, .switching, .purging: break
    case .recalling, .restoring, .returning: state = .undoing
    case .undoing(_, let reason), .telling(_, let reason):
      state = .undoing
      failure = reason
    case .done(let time):
      state = .done
      finishedAt = time
    case .failed(_, let reason, let time):
      state = .failed
      failure = reason
      finishedAt = time
    case .undone(let time):
      state = .undone
      finishedAt = time
    }
    self.init(
      migrationID: migration.id.description,
      state: state,
      step: MigrationV1.Step(migration.step),
      done: Int64(migration.done),
      total: Int64(migration.total),
      report: report,
      failure: failure,
      createdAt: GoogleProtobuf.Timestamp(migration.createdAt),
      finishedAt: finishedAt.map { GoogleProtobuf.Timestamp($0) },
      guestSub: migration.guest.description,
      targetSub: migration.target.description,
      undoUntil: migration.undoUntil.map { GoogleProtobuf.Timestamp($0) })
  }
}

extension MigrationV1.ConflictReason {
  init(_ reason: ConflictReason) {
    self =
      switch reason {
      case .ask: .ask
      case .noRoom: .noRoom
      case .overflow: .overflow
      case .noKey: .noKey
      }
  }
}

extension MigrationV1.Conflict {
  init(_ conflict: MigrationConflict) {
    self.init(
      collection: conflict.name.collection.description,
      key: conflict.name.key.description,
      reason: MigrationV1.ConflictReason(conflict.reason),
      guest: MigrationV1.ConflictRow(conflict.guest),
      account: conflict.account.map { MigrationV1.ConflictRow($0.content, revision: $0.revision) })
  }
}

extension MigrationV1.ConflictRow {
  init(_ content: RecordContent, revision: Int64 = 0) {
    self.init(
      value: content.value, number: content.number, updatedAt: GoogleProtobuf.Timestamp(content.updatedAt),
      revision: revision)
  }
}
