import LatchkeyProtos

extension Merge {
  init(_ proto: MigrationV1.Migration) throws(ClientError) {
    id = proto.migrationID
    state = try Self.state(proto.state)
    step = Self.step(proto.step)
    done = proto.done
    total = proto.total
    report = proto.report.map { Collection($0) }
    failure = proto.failure
    undoUntil = proto.undoUntil?.millisecondsSinceEpoch
    createdAt = proto.createdAt?.millisecondsSinceEpoch
  }

  private static func state(_ proto: MigrationV1.MigrationState) throws(ClientError) -> State {
    switch proto {
    case .queued: .queued
    case .running: .running
    case .undoing: .undoing
    case .done: .done
    case .failed: .failed
    case .undone: .undone
    default: throw .incompleteAnswer("Migration.state is \(proto), which this client does not know")
    }
  }

  private static func step(_ proto: MigrationV1.Step) -> String {
    switch proto {
    case .freeze: "freeze"
    case .snapshot: "snapshot"
    case .apply: "apply"
    case .verify: "verify"
    case .switch: "switch"
    case .purge: "purge"
    default: ""
    }
  }
}

extension Merge.Collection {
  init(_ proto: MigrationV1.CollectionReport) {
    name = proto.name
    policy = MergePolicy(proto.policy)
    moved = proto.moved
    kept = proto.kept
    replaced = proto.replaced
    combined = proto.summed
    refused = proto.refused
    asked = proto.asked
    accountRows = proto.targetCount
  }
}
