import GRPC
import LatchkeyProtos
import Storage

extension AccountHandlers {
  package func verifyIdentifier(
    _ request: IdentityV1.VerifyIdentifierRequest,
    context: ServerContext
  ) async throws(RPCError) -> IdentityV1.VerifyIdentifierResponse {
    guard let otp = request.otp else { throw .invalid("otp", "is missing") }
    let shown = try await PresentedCode(otp, "otp", evidence.codes, by: try context.requester())
    let (caller, now) = (try context.callerSession(), clock.now())
    let outcome = try await stored { () throws(StorageError) in
      try await owners.verify(shown.identifier, by: caller, code: shown.code, at: now)
    }
    switch outcome {
    case .verified: return IdentityV1.VerifyIdentifierResponse(verified: true)
    case .already: return IdentityV1.VerifyIdentifierResponse(verified: false)
    case .notFound: throw .identityNotFound
    case .codeSpent: throw .codeVoid
    case .callerEnded: throw .sessionRevoked
    }
  }
}
