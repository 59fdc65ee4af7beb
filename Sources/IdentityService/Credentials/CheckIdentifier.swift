import Domain
import GRPC
import LatchkeyModel
import LatchkeyProtos

extension AuthHandlers {
  /// Tells a form, while a person types, whether the text is an identifier and still free. It says what a registration
  /// would say anyway, to no more askers than could be people.
  package func checkIdentifier(
    _ request: IdentityV1.CheckIdentifierRequest,
    context: ServerContext
  ) async throws(RPCError) -> IdentityV1.CheckIdentifierResponse {
    if let wait = admission.identifierChecks.wait(from: context.peer, at: clock.now()) {
      throw RPCError(
        .resourceExhausted, "this network asks about too many identifiers", reason: "RATE_LIMITED", retryAfter: wait)
    }
    switch request.subject {
    case nil: throw .invalid("identifier", "is missing")
    case .nickname(let text):
      let isValid = Nickname(text) != nil
      return IdentityV1.CheckIdentifierResponse(valid: isValid, available: isValid)
    case .identifier(let text):
      guard let identifier = AccountIdentifier(text) else { return IdentityV1.CheckIdentifierResponse() }
      let account = try await look(FindAccount(for: identifier))
      return IdentityV1.CheckIdentifierResponse(
        valid: true, available: account == nil, kind: identifier.kind.name,
        availableWithCode: account.map { !$0.isProven } ?? false)
    }
  }
}
