import Domain
import GRPC
import Storage

extension WriteOutcome {
  /// What was done, or why it was refused.
  var value: Value {
    get throws(RPCError) {
      switch self {
      case .done(let value): return value
      case .migrating: throw .subjectMigrating
      case .migrated: throw .subjectMigrated
      case .deleted: throw .subjectDeleted
      case .full(let kind): throw .recordsFull(kind)
      case .guestsFull: throw .guestsFull
      case .tooManyConflicts: throw .tooManyConflicts
      }
    }
  }
}
