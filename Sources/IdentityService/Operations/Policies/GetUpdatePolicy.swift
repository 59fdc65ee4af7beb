import GRPC
import LatchkeyModel
import LatchkeyProtos

extension PolicyHandlers {
  /// Whether a version of an app must or should be updated.
  package func getUpdatePolicy(
    _ request: IdentityV1.GetUpdatePolicyRequest,
    context: ServerContext
  ) async throws(RPCError) -> IdentityV1.GetUpdatePolicyResponse {
    let client = try RequestFields.clientID(request.clientID)
    guard let version = AppVersion(request.appVersion) else {
      throw .invalid("app_version", "must be up to four numbers with dots between them, such as 2.1.0")
    }
    let policies = policies.current
    guard let update = policies.update(of: client) else {
      return IdentityV1.GetUpdatePolicyResponse(tier: .none, policyVersion: policies.version)
    }
    let tier: IdentityV1.UpdateTier
    if let minimum = update.minimum, version < minimum {
      tier = .forced
    } else if let recommended = update.recommended, version < recommended {
      tier = .soft
    } else {
      tier = .none
    }
    return IdentityV1.GetUpdatePolicyResponse(
      tier: tier,
      minVersion: update.minimum?.description ?? "",
      recommendedVersion: update.recommended?.description ?? "",
      updateURL: update.url,
      changelog: update.changelog,
      minView: update.view,
      policyVersion: policies.version
    )
  }
}
