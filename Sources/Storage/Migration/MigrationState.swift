import LatchkeyModel

/// How a migration's state stands in a row: engines have a column for each of these.
package struct MigrationState: Sendable, Equatable {
  /// The state without what it carries.
  package var phase: String
  package var cursorCollection: String?
  package var cursorUpdatedAt: Int64?
  package var cursorKey: String?
  package var failedStep: String?
  package var failure: String?
  package var finishedAt: Int64?

  /// As a row has it.
  package init(
    phase: String, cursorCollection: String?, cursorUpdatedAt: Int64?, cursorKey: String?, failedStep: String?,
    failure: String?, finishedAt: Int64?
  ) {
    self.phase = phase
    self.cursorCollection = cursorCollection
    self.cursorUpdatedAt = cursorUpdatedAt
    self.cursorKey = cursorKey
    self.failedStep = failedStep
    self.failure = failure
    self.finishedAt = finishedAt
  }

  package init(_ migration: Migration) {
    phase = Phase(migration.state).rawValue
    failure = migration.undoRefusal
    switch migration.state {
    case .applying(let after):
      cursorCollection = after?.collection.description
      cursorUpdatedAt = after?.updatedAt?.millisecondsSinceEpoch
      cursorKey = after?.key.description
    case .done(let time), .undone(let time): finishedAt = time.millisecondsSinceEpoch
    case .failed(let step, let reason, let time):
      (failedStep, failure) = (step.rawValue, reason)
      finishedAt = time.millisecondsSinceEpoch
    case .undoing(let step, let reason), .telling(let step, let reason):
      (failedStep, failure) = (step.rawValue, reason)
    case .freezing, .counting, .verifying, .switching, .purging, .recalling, .restoring, .returning: break
    }
  }

  /// Why identity did not let it be taken back, for one that is done.
  package var undoRefusal: String? { phase == Phase.done.rawValue ? failure : nil }

  /// Errors: `corrupt` when no migration has such a row.
  package var state: Migration.State {
    get throws(StorageError) {
      guard let phase = Phase(rawValue: phase) else { throw damaged("phase") }
      switch phase {
      case .freeze: return .freezing
      case .snapshot: return .counting
      case .apply: return .applying(after: try cursor)
      case .verify: return .verifying
      case .switch: return .switching
      case .purge: return .purging
      case .done: return .done(at: end)
      case .undo: return .undoing(try step, reason: failure ?? "")
      case .tell: return .telling(try step, reason: failure ?? "")
      case .failed: return .failed(try step, reason: failure ?? "", at: end)
      case .recall: return .recalling
      case .restore: return .restoring
      case .return: return .returning
      case .undone: return .undone(at: end)
      }
    }
  }

  private var end: Timestamp { Timestamp(millisecondsSinceEpoch: finishedAt ?? 0) }

  private var step: MigrationStep {
    get throws(StorageError) {
      guard let step = failedStep.flatMap({ MigrationStep(rawValue: $0) }) else { throw damaged("step") }
      return step
    }
  }

  private var cursor: Migration.Cursor? {
    get throws(StorageError) {
      guard let cursorCollection else { return nil }
      guard let collection = CollectionName(cursorCollection), let key = cursorKey.flatMap({ RecordKey($0) }) else {
        throw damaged("cursor")
      }
      guard let cursorUpdatedAt else {
        return Migration.Cursor(after: RecordName(collection: collection, key: key))
      }
      let position = RecordPosition(updatedAt: Timestamp(millisecondsSinceEpoch: cursorUpdatedAt), key: key)
      return Migration.Cursor(collection: collection, position: position)
    }
  }

  private func damaged(_ what: String) -> StorageError {
    StorageError(.corrupt, operation: "read a row", detail: "no valid \(what) in its column")
  }

  /// Phases that this release knows.
  package static var phases: [String] { Phase.allCases.map(\.rawValue) }

  private enum Phase: String, CaseIterable {
    case freeze, snapshot, apply, verify, `switch`, purge, done, undo, tell, failed
    case recall, restore, `return`, undone

    init(_ state: Migration.State) {
      self =
        switch state {
        case .freezing: .freeze
        case .counting: .snapshot
        case .applying: .apply
        case .verifying: .verify
        case .switching: .switch
        case .purging: .purge
        case .done: .done
        case .undoing: .undo
        case .telling: .tell
        case .failed: .failed
        case .recalling: .recall
        case .restoring: .restore
        case .returning: .return
        case .undone: .undone
        }
    }
  }
}
