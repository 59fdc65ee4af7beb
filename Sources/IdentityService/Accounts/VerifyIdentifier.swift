import Domain
import GRPC
import LatchkeyProtos

extension AccountHandlers {
  package func verifyIdentifier(
    _ request: IdentityV1.VerifyIdentifierRequest,
    context: ServerContext
  ) async throws(RPCError) -> IdentityV1.VerifyIdentifierResponse {
    guard let otp = request.otp else { throw .invalid("otp", "is missing") }
    let shown = try await PresentedCode(otp, "otp", evidence.codes, by: try context.requester())
    let verify = VerifyIdentifier(
      shown.identifier, by: try context.callerSession(), code: shown.code, at: clock.now())
    switch try await perform(verify) {
    case .verified: return IdentityV1.VerifyIdentifierResponse(verified: true)
    case .already: return IdentityV1.VerifyIdentifierResponse(verified: false)
    case .notFound: throw .identityNotFound
    case .codeSpent: throw .codeVoid
    case .callerEnded: throw .sessionRevoked
    }
  }
}
