import GRPC
import LatchkeyModel
import LatchkeyProtos
import Storage

extension QRSessionAPI {
  package func confirmSession(
    _ request: QRV1.ConfirmSessionRequest,
    context: ServerContext
  ) async throws(RPCError) -> QRV1.ConfirmSessionResponse {
    let confirmer = try confirmer(context)
    var scope: Scope?
    if !request.scopeSubset.isEmpty {
      guard let subset = Scope(request.scopeSubset) else {
        throw .invalid("scope_subset", "must be scope tokens separated by spaces")
      }
      scope = subset
    }
    var typed: CheckCode?
    if !request.checkCode.isEmpty {
      guard let code = CheckCode(typed: request.checkCode) else { throw .invalid("check_code", "is two digits") }
      typed = code
    }
    let (found, ticket) = try await find(ticket: request.confirmTicket)
    let expected = checkCode(of: found)
    let (granted, code) = (scope, typed)
    let (outcome, session) = try await decide(on: found) { session, now in
      session.confirm(
        by: confirmer,
        ticket: ticket,
        scope: granted,
        checkCode: (code, expected),
        policy: settings.confirm,
        at: now
      )
    }
    switch outcome {
    case .confirmed:
      record(.confirmed, session, subject: confirmer.subject, address: context.peer.address)
      return QRV1.ConfirmSessionResponse()
    case .alreadyConfirmed:
      return QRV1.ConfirmSessionResponse()
    case .refused:
      throw .noSuchCode
    case .scopeTooWide:
      throw .invalid("scope_subset", "is wider than what was asked for")
    case .needsReauthentication:
      throw .reauthenticationRequired
    case .needsCheckCode:
      throw .invalid("check_code", "is needed: two digits from the screen that shows the code")
    case .wrongCheckCode:
      record(.wrongCheckCode, session, subject: confirmer.subject, address: context.peer.address)
      throw .wrongCheckCode
    }
  }

  /// The session of a confirm ticket, and the ticket's hash. A text that is no ticket is one that nobody holds.
  func find(ticket text: String) async throws(RPCError) -> (session: QRSession, ticket: Digest256) {
    guard !text.isEmpty else { throw .invalid("confirm_ticket", "is what a scan answered") }
    guard let ticket = ConfirmTicket(text: text) else { throw .noSuchCode }
    let found = try await stored { () throws(StorageError) in try await self.store.session(ticket.session) }
    guard let found else { throw .noSuchCode }
    return (found, Self.digest(ticket.secret))
  }
}
