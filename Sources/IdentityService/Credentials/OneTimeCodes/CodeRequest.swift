import Domain
import GRPC
import LatchkeyModel
import LatchkeyProtos

/// Somebody asks for a code to be sent. Answered alike whether it is sent or not (R25).
struct CodeRequest: Sendable {
  let identifier: AccountIdentifier
  let purpose: CodePurpose
  /// Whether it is sent to an address that leads to no account too.
  let isForNewcomers: Bool
  let client: ClientID
  let locale: LanguageTag?
  let work: CallAdmission.Work
  let requester: Requester

  /// - Returns: the handle of the code.
  func send(by codes: OneTimeCodes, from peer: Peer) async throws(RPCError) -> String {
    let now = codes.clock.now()
    guard !codes.courier.isFailing(identifier.kind) else { throw .codeNotDelivered }
    // Bound to the identifier, to which few codes are sent: presented again, a solution is worth nothing more.
    try codes.sends.admit(work, about: Array(identifier.canonical.utf8), client: client, from: peer, at: now)

    let policy = codes.policy
    let text = codes.mint.make(digits: policy.digits)
    let handle = codes.mint.makeHandle()
    let code = codes.mint.hashed(text, for: identifier, purpose, handle: handle)
    let known = try await codes.look(FindAccount(for: identifier))
    let account = known?.isProven == true ? known?.subject : nil
    let issue = IssueCode(code, for: account, by: requester, under: policy, at: now)
    if case .wait(let wait) = try await codes.perform(issue) {
      throw RPCError(
        .resourceExhausted,
        "a code was sent already; wait before the next",
        reason: "RESEND_TOO_SOON",
        retryAfter: wait
      )
    }
    var message = CodeMessage(
      identifier: identifier,
      code: RedactedSecret(text),
      locale: locale,
      lifetime: policy.lifetime
    )
    message.purpose = purpose
    let isSent = account != nil || isForNewcomers
    guard codes.courier.take(isSent ? message : nil, code, to: identifier.kind, from: requester.source) else {
      throw .codeNotDelivered
    }
    return handle
  }
}
