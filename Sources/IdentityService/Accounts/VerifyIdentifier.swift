import Domain
import GRPC
import LatchkeyProtos

extension AccountHandlers {
  package func verifyIdentifier(
    _ request: IdentityV1.VerifyIdentifierRequest,
    context: ServerContext
  ) async throws(RPCError) -> IdentityV1.VerifyIdentifierResponse {
    guard let otp = request.otp else { throw .invalid("otp", "is missing") }
    let shown = try await PresentedCode(
      otp, "otp", evidence.codes, by: try context.requester(), from: context.peer)
    let verify = VerifyIdentifier(
      shown.identifier, by: try context.callerSession(), code: shown.code, at: clock.now())
    let isVerified = try await evidence.secrets.settling(shown.counted, grants: { $0 }) {
      () async throws(RPCError) -> Bool in
      try await isNew(verify)
    }
    return IdentityV1.VerifyIdentifierResponse(verified: isVerified)
  }

  /// Whether it was not verified before.
  private func isNew(_ verify: VerifyIdentifier) async throws(RPCError) -> Bool {
    switch try await perform(verify) {
    case .verified: return true
    case .already: return false
    case .notFound: throw .identityNotFound
    case .codeSpent: throw .codeVoid
    case .callerEnded: throw .sessionRevoked
    }
  }
}
