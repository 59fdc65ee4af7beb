import GRPC
import LatchkeyModel

/// The refusals of the migrator, each with its code and machine-readable reason in one place.
extension RPCError {
  /// The guest's records are on their way: the same call may be tried again, and will then learn that they have moved.
  static var subjectMigrating: RPCError {
    RPCError(
      .aborted, "the records are being moved into an account", reason: "SUBJECT_MIGRATING", retryAfter: .seconds(1))
  }

  static var subjectMigrated: RPCError {
    RPCError(.failedPrecondition, "the records have been moved into an account", reason: "SUBJECT_MIGRATED")
  }

  static var subjectDeleted: RPCError {
    RPCError(.failedPrecondition, "whose records these are was deleted", reason: "SUBJECT_DELETED")
  }

  /// No time to come back is named: it does not help to try again before something was deleted.
  static func recordsFull(_ kind: RecordBounds.Kind) -> RPCError {
    RPCError(
      .resourceExhausted, "the subject would store more \(kind.rawValue) than it may", reason: "RECORDS_FULL",
      info: [KeyValue("bound", kind.rawValue)])
  }

  /// There is room again when guests sign in, or when those whom nobody uses go.
  static var guestsFull: RPCError {
    RPCError(
      .resourceExhausted, "all guests together would store more than records.guestTotalMib lets them",
      reason: "RECORDS_FULL", info: [KeyValue("bound", "guestTotal")])
  }

  /// No time to come back is named: it does not help before somebody decides.
  static var tooManyConflicts: RPCError {
    RPCError(
      .resourceExhausted, "too many of guests' records wait for the account's owner to decide about them",
      reason: "TOO_MANY_CONFLICTS")
  }

  static var stalePlan: RPCError {
    RPCError(.aborted, "the plan no longer fits the records, or has expired; plan again", reason: "STALE_PLAN")
  }

  /// The same for a plan that never was and for someone else's.
  static var planNotFound: RPCError {
    RPCError(.notFound, "there is no such plan", reason: "PLAN_NOT_FOUND")
  }

  /// The same for a migration that never was and for someone else's.
  static var migrationNotFound: RPCError {
    RPCError(.notFound, "there is no such migration", reason: "MIGRATION_NOT_FOUND")
  }

  static var recordNotFound: RPCError {
    RPCError(.notFound, "there is no such record", reason: "RECORD_NOT_FOUND")
  }

  /// `current` is nil where there is no record any more.
  static func revisionMismatch(current: Int64?) -> RPCError {
    RPCError(
      .aborted, "the record has been written since", reason: "REVISION_MISMATCH",
      info: [KeyValue("revision", "\(current ?? 0)")])
  }

  /// Too late, or nothing was kept for it.
  static var undoExpired: RPCError {
    RPCError(.failedPrecondition, "the migration can be taken back no longer", reason: "UNDO_EXPIRED")
  }

  static var migrationNotDone: RPCError {
    RPCError(.failedPrecondition, "the migration is not done, or was taken back", reason: "MIGRATION_NOT_DONE")
  }

  /// The policy leaves the record where it is.
  static func conflictRemains(_ reason: ConflictReason) -> RPCError {
    let why =
      switch reason {
      case .ask: "ASK decides nothing"
      case .noRoom: "the account holds as many records of the collection as it may"
      case .overflow: "the sum of the two numbers is larger than a number can be"
      case .noKey: "no key of its own can be made for the guest's record"
      }
    return RPCError(
      .failedPrecondition, "policy: \(why)", reason: "CONFLICT_REMAINS", info: [KeyValue("conflict", reason.rawValue)])
  }

  static var idempotencyKeyReused: RPCError {
    RPCError(
      .failedPrecondition, "the idempotency key has started another plan", reason: "IDEMPOTENCY_KEY_REUSED")
  }
}
