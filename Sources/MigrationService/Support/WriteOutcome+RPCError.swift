import GRPC
import Storage

extension WriteOutcome {
  /// What was done, or the refusal of a frozen subject.
  var value: Value {
    get throws(RPCError) {
      switch self {
      case .done(let value): return value
      case .migrating: throw .subjectMigrating
      case .migrated: throw .subjectMigrated
      case .deleted: throw .subjectDeleted
      }
    }
  }
}
