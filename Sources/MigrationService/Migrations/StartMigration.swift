import Domain
import GRPC
import LatchkeyModel
import LatchkeyProtos
import ServiceRuntime
import Storage

extension MigrationHandlers {
  /// Freezes the guest's records and queues the migration, in one transaction: when the answer is lost, the same call
  /// answers the same.
  package func startMigration(
    _ request: MigrationV1.StartMigrationRequest,
    context: ServerContext
  ) async throws(RPCError) -> MigrationV1.StartMigrationResponse {
    guard let planID = PlanID(request.planID) else { throw .planNotFound }
    try core.random.cell.requireSame(planID.cell)
    let digest = try RequestFields.digest(request.digest)
    let key = request.idempotencyKey.isEmpty ? context.firstValue("idempotency-key") ?? "" : request.idempotencyKey
    let idempotencyKey = try RequestFields.idempotencyKey(key, "idempotency_key")
    let plan = try await core.look(FindPlan(planID))
    guard let plan, Self.isParty(context.caller, to: plan.target) else { throw .planNotFound }
    guard digest == plan.digest else { throw .stalePlan }
    let id = MigrationID(from: core.random)
    let now = core.clock.now()
    let outcome = try await core.perform(
      StartMigration(planID, as: id, idempotencyKey: idempotencyKey, at: now))
    switch outcome {
    case .started(let started):
      if started == id {
        core.logger.notice(
          "a migration was started",
          metadata: ["migration": "\(id)", "guest": "\(plan.guest)", "account": "\(plan.target)"])
        core.signals.workArrived()
      }
      return MigrationV1.StartMigrationResponse(migrationID: started.description)
    case .stale: throw .stalePlan
    case .keyReused: throw .idempotencyKeyReused
    case .migrating: throw .subjectMigrating
    case .migrated: throw .subjectMigrated
    }
  }
}
