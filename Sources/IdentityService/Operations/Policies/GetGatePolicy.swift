import GRPC
import LatchkeyProtos

extension PolicyHandlers {
  /// Which actions need a sign-in in an application.
  package func getGatePolicy(
    _ request: IdentityV1.GetGatePolicyRequest,
    context: ServerContext
  ) async throws(RPCError) -> IdentityV1.GetGatePolicyResponse {
    let client = try RequestFields.clientID(request.clientID)
    guard request.knownVersion >= 0 else { throw .invalid("known_version", "must not be negative") }
    let policies = policies.current
    guard request.knownVersion != policies.version else {
      return IdentityV1.GetGatePolicyResponse(version: policies.version, unchanged: true)
    }
    return IdentityV1.GetGatePolicyResponse(
      version: policies.version,
      gates: policies.gates(of: client).map {
        IdentityV1.Gate(action: $0.action, loginRequired: $0.needsLogin, promptKey: $0.promptKey)
      }
    )
  }
}
