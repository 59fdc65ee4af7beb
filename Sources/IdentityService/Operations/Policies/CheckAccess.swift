import Cryptography
import GRPC
import LatchkeyProtos
import ServiceRuntime

extension PolicyHandlers {
  /// Whether the caller may do an action, from where it calls.
  package func checkAccess(
    _ request: IdentityV1.CheckAccessRequest,
    context: ServerContext
  ) async throws(RPCError) -> IdentityV1.CheckAccessResponse {
    let client = try RequestFields.clientID(request.clientID)
    guard request.action.isEmpty || Policies.isAction(request.action) else {
      throw .invalid("action", "must be lower-case letters, digits, '.', '_' or '-'")
    }
    let policies = policies.current
    guard policies.permits(context.peer.address) else {
      return IdentityV1.CheckAccessResponse(
        access: .networkNotPermitted,
        companionApp: policies.companion.map {
          IdentityV1.CompanionApp(schemeURL: $0.schemeURL, downloadURL: $0.downloadURL)
        },
        policyVersion: policies.version
      )
    }
    if let gate = policies.gates(of: client).first(where: { $0.action == request.action }), gate.needsLogin,
      try !isAccount(context)
    {
      var error = RPCError.loginRequired
      error.details.info = [
        RPCError.KeyValue("action", gate.action),
        RPCError.KeyValue("prompt_key", gate.promptKey),
        RPCError.KeyValue("policy_version", "\(policies.version)"),
      ]
      throw error
    }
    return IdentityV1.CheckAccessResponse(access: .allowed, policyVersion: policies.version)
  }

  /// A token that no longer holds is said to be one: its owner need not sign in anew but renew it.
  private func isAccount(_ context: ServerContext) throws(RPCError) -> Bool {
    switch context.caller {
    case .subject(let subject): return !subject.isGuest
    case .service: return true
    case .anonymous:
      guard let header = context.firstValue("authorization") else { return false }
      let words = header.split(separator: " ", maxSplits: 1)
      guard words.count == 2 else { throw .tokenInvalid }
      _ = try tokens.verify(String(words[1]), at: clock.now())
      // It is ours and within its time, and was refused nevertheless.
      throw .sessionRevoked
    }
  }
}
