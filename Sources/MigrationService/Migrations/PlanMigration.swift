import Cryptography
import Domain
import GRPC
import LatchkeyModel
import LatchkeyProtos
import ServiceRuntime
import Storage

extension MigrationHandlers {
  /// Both sides prove themselves with access tokens that hold now: the guest whose records move, and the account that
  /// takes them. The caller is that account, or a service that has both tokens.
  package func planMigration(
    _ request: MigrationV1.PlanMigrationRequest,
    context: ServerContext
  ) async throws(RPCError) -> MigrationV1.PlanMigrationResponse {
    let guest = try proof(request.guestProof, "guest_proof", ofGuest: true, by: context.caller)
    let target = try proof(request.targetProof, "target_proof", ofGuest: false, by: context.caller)
    guard Self.isParty(context.caller, to: target) else {
      throw RPCError(
        .permissionDenied, "the caller is not the account that takes the records", reason: "NOT_THE_TARGET")
    }
    // A guest that became the account a moment ago has nothing to move, and must not be frozen for it.
    guard guest != target else { throw .invalid("guest_proof", "must not be of the account itself") }
    let rules = core.rules.overriding(try RequestFields.overrides(request.policyOverrides))
    // A service asks for those whom it let in: it has limits of its own.
    if case .subject = context.caller, let wait = core.plans.spend(target, at: core.clock.now()) {
      throw RPCError(
        .resourceExhausted, "this account asked for too many plans", reason: "TOO_MANY_ATTEMPTS", retryAfter: wait)
    }
    let outcome = try await core.look(
      PlanMigration(
        guest: guest, target: target, rules: rules, isFirstLoginOnDevice: request.firstLoginOnDevice))
    let plan = try outcome.value
    let id = PlanID(from: core.random)
    let digest = SHA256Hash.hash(plan.canonicalForm)
    let now = core.clock.now()
    try await core.perform(
      SavePlan(plan, as: id, digest: digest, at: now, expiresAt: now + Limits.planLifetime))
    return MigrationV1.PlanMigrationResponse(
      planID: id.description,
      digest: Base64URL.encode(digest),
      collections: plan.collections.map { MigrationV1.CollectionPlan($0) },
      expiresIn: Limits.planLifetime.secondsRoundedUp,
      firstLoginOnDevice: plan.isFirstLoginOnDevice)
  }

  private func proof(_ token: String, _ field: String, ofGuest: Bool, by caller: Caller) throws(RPCError) -> SubjectID {
    guard !token.isEmpty else { throw .invalid(field, "must be an access token") }
    let subject: AuthenticatedSubject
    do throws(RPCError) {
      subject = try core.tokens.authenticate(token)
    } catch {
      // Which of the two tokens it was: the caller's own, in the metadata, holds.
      var named = error
      named.message = "\(field): \(error.message)"
      throw named
    }
    guard subject.isGuest == ofGuest else {
      throw .invalid(field, ofGuest ? "must be a guest's access token" : "must be an account's access token")
    }
    // A token that is bound to a key counts only from who has proven that key; a service speaks for both sides.
    if let key = subject.keyThumbprint, case .subject(let subject) = caller, subject.keyThumbprint != key {
      throw .invalid(field, "is bound to another key than the caller's")
    }
    return try subject.id
  }
}
