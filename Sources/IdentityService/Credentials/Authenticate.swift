import Domain
import GRPC
import LatchkeyModel
import LatchkeyProtos
import Storage

extension AuthHandlers {
  /// Signs in. A guest who meets an existing account is told so first, unless the request already says what is to
  /// happen to the guest's data; the ticket in that answer takes the credential's place: what holds once is spent.
  ///
  /// The same request with the same `idempotency-key` begins no second session: it is answered with the first one's,
  /// also when both come at the same time or when a code or ticket in it was spent by the first. A conflict is answered
  /// with the same ticket again, as long as that holds.
  package func authenticate(
    _ request: IdentityV1.AuthenticateRequest,
    context: ServerContext
  ) async throws(RPCError) -> IdentityV1.AuthenticateResponse {
    // Where there is too much to do, most calls end here.
    if Self.isGuessable(request) { try methods.evidence.secrets.checkRoom() }
    let answer: Answer = try await callers.proofs.withProvenKey(
      context, at: clock.now(), remembersIf: { $0.key == $1 }
    ) { boundKey throws(RPCError) in
      try await authenticate(request, boundKey, context)
    }
    return answer.response
  }

  /// What is answered, and the key that it, or what was shown for it, is bound to: with another one there would have been
  /// another answer. A conflict is told to any key as often as anybody likes, and what is answered again is the first one's
  /// key's.
  private struct Answer: Sendable {
    let response: IdentityV1.AuthenticateResponse
    let key: String?
  }

  private func authenticate(
    _ request: IdentityV1.AuthenticateRequest,
    _ boundKey: String?,
    _ context: ServerContext
  ) async throws(RPCError) -> Answer {
    let client = try RequestFields.clientID(request.clientID)
    let label = try RequestFields.displayText(request.deviceLabel, "device_label")
    _ = try RequestFields.locale(request.locale)
    let guest = try callers.guest(of: request.guestToken, provenKey: boundKey, in: context, at: clock.now())
    let choice = try Self.choice(request.onConflict)
    let work = try CallAdmission.Work(challenge: request.challenge, solution: request.powSolution)
    let replay = try replay(request, context)
    let issuing = try tokens.issuing()
    let asked = Asked(
      message: request, work: work, client: client, label: label, guest: guest?.session, guestKey: guest?.boundKey,
      boundKey: boundKey, choice: choice, replay: replay, issuing: issuing)
    guard let replay else { return try await begin(by: try await present(asked, context), asked, context) }
    // What somebody may come to by trying is looked at first, where tries count: the record of an earlier answer tells
    // as much.
    let canBeTried = Self.canBeTried(request)
    if !canBeTried, let first = try await answered(replay, asked) { return first }
    let shown: Shown
    do throws(RPCError) {
      shown = try await present(asked, context)
    } catch {
      // A look at the record after anything else would be a try that nobody counts.
      guard !canBeTried || error.isOfCountedCode, let first = try await answered(replay, asked) else { throw error }
      // The code was right when the first one spent it.
      await asked.missed.giveBack(by: methods.evidence.secrets)
      return first
    }
    do throws(RPCError) {
      return try await begin(by: shown, asked, context)
    } catch {
      // An equal request may have finished while this one was looked at, and have spent what it presents.
      guard let first = try await answered(replay, asked) else { throw error }
      return first
    }
  }

  private static func isGuessable(_ request: IdentityV1.AuthenticateRequest) -> Bool {
    request.method.map(LoginMethods.isGuessable) ?? false
  }

  /// Whether somebody may come to what is presented by trying: nobody thought of a code, but it is short. Its handle is not, and
  /// what is on record had the right one.
  private static func canBeTried(_ request: IdentityV1.AuthenticateRequest) -> Bool {
    if case .otp(let code)? = request.method { code.handle.isEmpty } else { isGuessable(request) }
  }

  /// A request that was read.
  private struct Asked: Sendable {
    let message: IdentityV1.AuthenticateRequest
    let work: CallAdmission.Work
    let client: ClientID
    let label: DisplayText?
    let guest: SessionID?
    /// Thumbprint of the key that the guest's token is bound to.
    let guestKey: String?
    /// Thumbprint of the key that the call proved.
    let boundKey: String?
    let choice: Choice
    let replay: SignIn.Replay?
    let issuing: IssuingTokens
    let missed = MissedTry()

    /// The session of the guest who would be told of a conflict.
    var reportedTo: SessionID? { choice == .report && message.linkTicket.isEmpty ? guest : nil }
  }

  /// What a request presents, which held.
  private enum Shown: Sendable {
    case ticket(SignIn.Proof, SignInMethod)
    case credential(LoginFinding)
  }

  /// Looks at what is presented. Once that was done, whatever somebody may come to by trying was counted.
  private func present(
    _ asked: Asked,
    _ context: ServerContext
  ) async throws(RPCError) -> Shown {
    try admit(asked, context)
    guard asked.message.linkTicket.isEmpty else {
      let (proof, method) = try await ticket(asked)
      return .ticket(proof, method)
    }
    guard let presented = asked.message.method else { throw .invalid("method", "is missing") }
    let attempt = LoginAttempt(
      client: asked.client, guest: asked.guest, provenKey: asked.boundKey, source: context.source, missed: asked.missed)
    return .credential(try await methods.verify(presented, attempt))
  }

  private func begin(
    by shown: Shown,
    _ asked: Asked,
    _ context: ServerContext
  ) async throws(RPCError) -> Answer {
    switch shown {
    case .ticket(let proof, let method): return try await signIn(asked, by: proof, method, nil, context)
    case .credential(.newcomer(let newcomer)): return try await welcome(newcomer, asked, context)
    case .credential(.account(let login)):
      if let guest = asked.guest, asked.choice == .report { return try await conflict(login, guest, asked) }
      return try await signIn(asked, by: login.proof, login.method, login, context)
    }
  }

  /// What a link ticket in a credential's place stands for.
  private func ticket(_ asked: Asked) async throws(RPCError) -> (SignIn.Proof, SignInMethod) {
    guard asked.message.method == nil else {
      throw .invalid("link_ticket", "stands for the method: send one of them")
    }
    guard let guest = asked.guest else {
      throw .invalid("guest_token", "is missing: a link ticket is the guest's")
    }
    guard asked.choice != .report else {
      throw .invalid("on_conflict", "must be MERGE or SWITCH with a link ticket")
    }
    let hash = try LinkTicketText.hash(asked.message.linkTicket, in: cell)
    guard let found = try await look(FindTicket(hash, of: guest, at: clock.now())) else {
      throw try await isOver(guest) ? .sessionRevoked : .linkTicketInvalid
    }
    return (.ticket(hash: hash), found.authority.method)
  }

  private func signIn(
    _ asked: Asked,
    by proof: SignIn.Proof,
    _ method: SignInMethod,
    _ login: VerifiedLogin?,
    _ context: ServerContext
  ) async throws(RPCError) -> Answer {
    let now = clock.now()
    let signIn = SignIn(
      proof: proof,
      guest: asked.guest.map { SignIn.Guest(session: $0, choice: asked.choice.forStore(random, at: now)) },
      draft: draft(asked, method, context, at: now),
      challenge: login?.challenge,
      source: context.source,
      replay: asked.replay
    )
    // Settled before all that takes time and changes nothing of it: until then it counts as a wrong try.
    let begun = try await methods.evidence.secrets.settling(login?.counted, grants: { !$0.isRepeated }) {
      () async throws(RPCError) in try await begin(signIn)
    }
    let answer = try await answer(begun.signedIn, asked, at: now)
    await login?.afterwards()
    return answer
  }

  private func begin(_ signIn: SignIn) async throws(RPCError) -> (signedIn: SignedIn, isRepeated: Bool) {
    switch try await perform(signIn) {
    case .signedIn(let signedIn): return (signedIn, false)
    case .repeated(let first): return (first, true)
    case .credentialChanged: throw .invalidCredentials
    case .challengeUsed: throw .challengeInvalid
    case .ticketInvalid: throw .linkTicketInvalid
    case .guestGone: throw .sessionRevoked
    case .disabled: throw .subjectDisabled
    case .guestMerging: throw .migrationRunning
    }
  }

  private func draft(
    _ asked: Asked, _ method: SignInMethod, _ context: ServerContext, at now: LatchkeyModel.Timestamp
  ) -> SessionDraft {
    SessionDraft(
      client: asked.client,
      method: method,
      label: asked.label,
      address: context.peer.address,
      boundKeyThumbprint: asked.boundKey,
      lifetimes: tokens.lifetimes,
      at: now,
      random: random
    )
  }

  private func isOver(_ guest: SessionID) async throws(RPCError) -> Bool {
    try await session(guest)?.isLive(at: clock.now()) != true
  }

  /// Makes the account of somebody who is known for certain; the guest becomes it, so there is nothing to choose.
  private func welcome(
    _ newcomer: Newcomer,
    _ asked: Asked,
    _ context: ServerContext
  ) async throws(RPCError) -> Answer {
    let now = clock.now()
    let registration = Register(
      identifier: newcomer.identifier,
      secretHash: nil,
      challenge: newcomer.challenge,
      nickname: newcomer.profile.nickname,
      avatar: newcomer.profile.avatarURL.flatMap { AvatarURL($0) },
      locale: newcomer.profile.locale,
      newSubject: SubjectID(from: random),
      guestSession: asked.guest,
      draft: draft(asked, newcomer.method, context, at: now),
      source: context.source,
      replay: asked.replay
    )
    switch try await perform(registration) {
    case .registered(let signedIn): return try await answer(signedIn, asked, at: now)
    // Two first sign-ins of one person met: the other one made the account, and a try again signs in to it.
    case .identifierTaken, .identifierUnproven:
      throw RPCError(.aborted, "the account came to be meanwhile; try again", retryAfter: .milliseconds(100))
    case .codeSpent, .challengeUsed: throw .challengeInvalid
    case .guestGone: throw .sessionRevoked
    case .guestMerging: throw .migrationRunning
    }
  }

  /// A network that signs in often does work for more.
  private func admit(_ asked: Asked, _ context: ServerContext) throws(RPCError) {
    try admission.signIns.admit(
      asked.work,
      about: try Self.withoutWork(asked.message).encoded(),
      client: asked.client,
      from: context.peer,
      at: clock.now()
    )
  }

  /// Nil without an `idempotency-key`.
  private func replay(
    _ request: IdentityV1.AuthenticateRequest,
    _ context: ServerContext
  ) throws(RPCError) -> SignIn.Replay? {
    try replay("authenticate", Self.withoutWork(request), context)
  }

  /// The request as it is asked again, also when work was asked for in between.
  private static func withoutWork(_ request: IdentityV1.AuthenticateRequest) -> IdentityV1.AuthenticateRequest {
    var request = request
    request.challenge = ""
    request.powSolution = []
    return request
  }

  /// What an equal request was answered; nil where there was none.
  private func answered(_ replay: SignIn.Replay, _ asked: Asked) async throws(RPCError) -> Answer? {
    let now = clock.now()
    if let guest = asked.reportedTo {
      let text = LinkTicketText.make(for: replay, key: admission.replayKey, in: cell)
      if let ticket = try await look(FindTicket(text.hash, of: guest, at: now)) {
        return try await conflict(ticket, text, key: asked.guestKey ?? ticket.authority.keyThumbprint, at: now)
      }
    }
    guard let first = try await look(FindSignedIn(replaying: replay.key, at: now)) else { return nil }
    return try await answer(first, asked, at: now)
  }

  /// The sign-in is durable by now, and so is the wish to merge: handing it to the migrator at once only makes the
  /// answer richer.
  private func answer(
    _ signedIn: SignedIn,
    _ asked: Asked,
    at now: LatchkeyModel.Timestamp
  ) async throws(RPCError) -> Answer {
    let tokens = try asked.issuing.tokens(of: signedIn.session, at: now)
    var change = IdentityV1.AccountChange(signedIn)
    if let merge = signedIn.merge {
      if let migration = await migrator?.handOver(merge) {
        change.migrationID = migration
      } else {
        change.migrationPending = true
      }
    }
    let response = IdentityV1.AuthenticateResponse(
      tokens: tokens,
      subject: CommonV1.Subject(signedIn.session),
      profile: CommonV1.Profile(signedIn.profile),
      accountChange: change,
      storageNamespace: signedIn.session.subject.storageNamespace
    )
    return Answer(response: response, key: asked.guestKey ?? signedIn.session.boundKeyThumbprint)
  }

  private func conflict(
    _ login: VerifiedLogin,
    _ guest: SessionID,
    _ asked: Asked
  ) async throws(RPCError) -> Answer {
    let now = clock.now()
    let text =
      asked.replay.map { LinkTicketText.make(for: $0, key: admission.replayKey, in: cell) }
      ?? LinkTicketText.make(random)
    let ticket = LinkTicket(
      hash: text.hash,
      guestSession: guest,
      account: login.account,
      authority: Authority(
        scope: .account,
        method: login.method,
        provenBy: login.method,
        provenAt: now,
        keyThumbprint: asked.boundKey,
        expiry: now + tokens.lifetimes.family(isGuest: false, method: login.method).absolute
      ),
      accountMask: login.mask,
      qrSession: login.qrSession,
      expiry: now + tokens.lifetimes.linkTicket
    )
    let command = KeepTicket(ticket, for: login.proof, challenge: login.challenge, at: now)
    // Nothing is granted yet, and a secret may be presented for another ticket as often as one likes.
    let isSpent = if case .code = login.proof { true } else { false }
    try await methods.evidence.secrets.settling(login.counted, grants: { _ in isSpent }) {
      () async throws(RPCError) in try await keep(command)
    }
    return try await conflict(ticket, text, key: asked.guestKey ?? login.boundKey, at: now)
  }

  private func keep(_ command: KeepTicket) async throws(RPCError) {
    switch try await perform(command) {
    case .kept: return
    case .credentialChanged: throw .codeVoid
    case .challengeUsed: throw .challengeInvalid
    case .guestGone: throw .sessionRevoked
    case .disabled: throw .subjectDisabled
    }
  }

  private func conflict(
    _ ticket: LinkTicket,
    _ text: LinkTicketText,
    key: String?,
    at now: LatchkeyModel.Timestamp
  ) async throws(RPCError) -> Answer {
    let session = try await look(FindSession(ticket.guestSession))
    guard let session else { throw .sessionRevoked }
    guard let subject = try await look(FindSubject(session.subject)) else { throw .sessionRevoked }
    let response = IdentityV1.AuthenticateResponse(
      conflict: IdentityV1.Conflict(
        linkTicket: text.text,
        existingMask: ticket.accountMask,
        guestSummary: IdentityV1.GuestSummary(
          createdAt: GoogleProtobuf.Timestamp(subject.createdAt),
          collections: await migrator?.collections(of: session) ?? []
        ),
        choices: migrator == nil ? [.switch] : [.merge, .switch],
        expiresIn: (ticket.expiry - now).secondsRoundedUp
      )
    )
    return Answer(response: response, key: key)
  }

  private enum Choice {
    case report
    case merge
    case leave

    func forStore(_ random: RandomSource, at now: LatchkeyModel.Timestamp) -> SignIn.GuestChoice {
      switch self {
      case .merge: .merge(MergeID(from: random), dueAt: now + Limits.mergeHandover)
      // A guest's sign-in never gets here with REPORT.
      case .leave, .report: .leave
      }
    }
  }

  private static func choice(_ value: IdentityV1.OnConflict) throws(RPCError) -> Choice {
    switch value {
    case .unspecified, .report: .report
    case .merge: .merge
    case .switch: .leave
    case .unrecognized: throw .invalid("on_conflict", "must be REPORT, MERGE or SWITCH")
    }
  }
}
