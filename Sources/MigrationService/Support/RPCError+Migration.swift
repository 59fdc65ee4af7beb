import GRPC

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

  static func revisionMismatch(current: Int64) -> RPCError {
    RPCError(
      .aborted, "the record has been written since", reason: "REVISION_MISMATCH",
      info: [KeyValue("revision", "\(current)")])
  }

  static var idempotencyKeyReused: RPCError {
    RPCError(
      .failedPrecondition, "the idempotency key has started another plan", reason: "IDEMPOTENCY_KEY_REUSED")
  }
}
