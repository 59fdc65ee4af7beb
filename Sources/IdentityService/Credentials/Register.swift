import Cryptography
import Domain
import GRPC
import LatchkeyModel
import LatchkeyProtos
import Storage

extension AuthHandlers {
  /// Makes an account; with a guest's token the guest becomes it, in place: its sub and data stay, its other sessions
  /// end and the caller's is replaced.
  ///
  /// The same request with the same `idempotency-key` is answered with the first one's session, also when a code in it
  /// was spent by the first.
  package func register(
    _ request: IdentityV1.RegisterRequest,
    context: ServerContext
  ) async throws(RPCError) -> IdentityV1.RegisterResponse {
    // What is answered again is the first one's key's, and as many others may have proven theirs.
    try await callers.proofs.withProvenKey(
      context, at: clock.now(), remembersIf: { $0.tokens?.cnfJkt == $1 }
    ) { boundKey throws(RPCError) in
      try await register(request, boundKey, context)
    }
  }

  private func register(
    _ request: IdentityV1.RegisterRequest,
    _ boundKey: String?,
    _ context: ServerContext
  ) async throws(RPCError) -> IdentityV1.RegisterResponse {
    let client = try RequestFields.clientID(request.clientID)
    let nickname = try RequestFields.nickname(request.nickname)
    let locale = try RequestFields.locale(request.locale)
    let avatar = try RequestFields.avatar(request.avatarURL)
    let work = try CallAdmission.Work(challenge: request.challenge, solution: request.powSolution)
    var plain = request
    plain.challenge = ""
    plain.powSolution = []
    let replay = try replay("register", plain, context)
    let asked = Asked(
      message: plain, boundKey: boundKey, work: work, client: client, nickname: nickname, avatar: avatar,
      locale: locale, replay: replay)
    guard let replay else { return try await register(asked, context) }
    do throws(RPCError) {
      return try await register(asked, context)
    } catch {
      // An equal request may have come before, and have taken what this one asks for.
      guard let first = try await answered(replay, after: error, asked, context) else { throw error }
      return first
    }
  }

  /// A request that was read.
  private struct Asked: Sendable {
    /// As it is asked again, also when work was asked for in between.
    let message: IdentityV1.RegisterRequest
    /// Thumbprint of the key that the call proved.
    let boundKey: String?
    let work: CallAdmission.Work
    let client: ClientID
    let nickname: Nickname?
    let avatar: AvatarURL?
    let locale: LanguageTag?
    let replay: SignIn.Replay?
    let missed = MissedTry()
  }

  private func register(
    _ asked: Asked,
    _ context: ServerContext
  ) async throws(RPCError) -> IdentityV1.RegisterResponse {
    let issuing = try tokens.issuing()
    let guest = try callers.guestSession(
      of: asked.message.guestToken, provenKey: asked.boundKey, in: context, at: clock.now())
    try admission.registrations.admit(
      asked.work,
      about: try asked.message.encoded(),
      client: asked.client,
      from: context.peer,
      at: clock.now()
    )

    let requester = Requester(guestSession: guest, provenKey: asked.boundKey, source: context.source)
    let credential = try await credential(asked, requester)
    let now = clock.now()
    let registration = Register(
      identifier: credential.identifier,
      secretHash: credential.secretHash,
      code: credential.code,
      nickname: asked.nickname,
      avatar: asked.avatar,
      locale: asked.locale,
      newSubject: SubjectID(from: random),
      guestSession: guest,
      draft: SessionDraft(
        client: asked.client,
        method: credential.method,
        address: context.peer.address,
        boundKeyThumbprint: asked.boundKey,
        lifetimes: tokens.lifetimes,
        at: now,
        random: random
      ),
      source: context.source,
      replay: asked.replay
    )
    switch try await perform(registration) {
    case .registered(let signedIn): return try answer(signedIn, issuing, at: now)
    case .identifierTaken: throw .identityInUse
    case .identifierUnproven: throw .identityUnproven
    case .codeSpent: throw .codeVoid
    case .challengeUsed: throw .challengeInvalid
    case .guestGone: throw .sessionRevoked
    case .guestMerging: throw .migrationRunning
    }
  }

  /// What an equal request was answered that took what this one was refused for. The record of it tells as much as a
  /// look at the secret would, so it is a try at that account like any other; one that is answered was none.
  private func answered(
    _ replay: SignIn.Replay,
    after error: RPCError,
    _ asked: Asked,
    _ context: ServerContext
  ) async throws(RPCError) -> IdentityV1.RegisterResponse? {
    if error.isOfCountedCode {
      guard let first = try await answered(replay) else { return nil }
      await asked.missed.giveBack(by: methods.evidence.secrets)
      return first
    }
    guard error.details.reason == "IDENTITY_IN_USE" else { return nil }
    let identifier = try Self.identifier(of: asked.message)
    let taken = try await look(FindAccount(for: identifier))
    let secrets = methods.evidence.secrets
    let counted = try await secrets.countAttempt(
      "\(identifier.kind.rawValue) \(identifier.canonical)",
      account: taken?.subject,
      by: Requester(provenKey: asked.boundKey, source: context.source)
    )
    guard let first = try await answered(replay) else { return nil }
    await secrets.notMade(counted)
    return first
  }

  /// What would lead to the account.
  private static func identifier(
    of request: IdentityV1.RegisterRequest
  ) throws(RPCError) -> AccountIdentifier {
    if let custom = request.customSecret {
      return .customID(try RequestFields.customID(custom.id, "custom_secret.id"))
    }
    if let password = request.password {
      return try RequestFields.identifier(password.identifier, "password.identifier")
    }
    return try RequestFields.address(request.otp?.identifier ?? "", "otp.identifier")
  }

  private func answered(_ replay: SignIn.Replay) async throws(RPCError) -> IdentityV1.RegisterResponse? {
    let now = clock.now()
    guard let first = try await look(FindSignedIn(replaying: replay.key, at: now)) else { return nil }
    return try answer(first, try tokens.issuing(), at: now)
  }

  private func answer(
    _ signedIn: SignedIn,
    _ issuing: IssuingTokens,
    at now: LatchkeyModel.Timestamp
  ) throws(RPCError) -> IdentityV1.RegisterResponse {
    IdentityV1.RegisterResponse(
      tokens: try issuing.tokens(of: signedIn.session, at: now),
      subject: CommonV1.Subject(signedIn.session),
      profile: CommonV1.Profile(signedIn.profile),
      accountChange: IdentityV1.AccountChange(signedIn),
      storageNamespace: signedIn.session.subject.storageNamespace
    )
  }

  /// What the account will sign in by.
  private struct NewCredential {
    let method: SignInMethod
    let identifier: AccountIdentifier
    var secretHash: String?
    var code: OneTimeCode?
  }

  private func credential(
    _ asked: Asked,
    _ requester: Requester
  ) async throws(RPCError) -> NewCredential {
    let request = asked.message
    if let custom = request.customSecret {
      guard request.password == nil, request.otp == nil else {
        throw .invalid("custom_secret", "goes with no other credential")
      }
      let id = try RequestFields.customID(custom.id, "custom_secret.id")
      let secret = try RequestFields.newCustomSecret(custom.secret, "custom_secret.secret")
      try await requireFree(.customID(id))
      return NewCredential(
        method: .customSecret,
        identifier: .customID(id),
        secretHash: try await methods.evidence.secrets.hash(secret.secret)
      )
    }
    guard let password = request.password else {
      guard let otp = request.otp else { throw .invalid("password", "is missing") }
      let shown = try await presentedCode(otp, asked, requester)
      guard shown.account == nil else { throw .identityInUse }
      return NewCredential(method: .otp, identifier: shown.identifier, code: shown.code)
    }
    let identifier = try RequestFields.identifier(password.identifier, "password.identifier")
    let secret = try RequestFields.newPassword(password.password, "password.password")
    var code: OneTimeCode?
    if let otp = request.otp {
      let shown = try await presentedCode(otp, asked, requester)
      guard shown.identifier.kind == identifier.kind, shown.identifier.canonical == identifier.canonical else {
        throw .invalid("otp.identifier", "must be password.identifier: the code shows that it is yours")
      }
      guard shown.account == nil else { throw .identityInUse }
      code = shown.code
    } else {
      try methods.evidence.requireNoCode(for: identifier, "password.identifier")
      try await requireFree(identifier)
    }
    return NewCredential(
      method: .password,
      identifier: identifier,
      secretHash: try await methods.evidence.secrets.hash(secret.secret),
      code: code
    )
  }

  /// A code that is right. One for an address that leads to an account makes none and can be presented again: it does
  /// not begin the count of wrong tries at that account anew.
  private func presentedCode(
    _ otp: IdentityV1.OtpCredential,
    _ asked: Asked,
    _ requester: Requester
  ) async throws(RPCError) -> PresentedCode {
    let evidence = methods.evidence
    let shown = try await PresentedCode(otp, "otp", evidence.codes, by: requester, noting: asked.missed)
    if shown.account == nil {
      try await evidence.secrets.attemptSucceeded(shown.counted)
    } else {
      await evidence.secrets.notMade(shown.counted)
    }
    return shown
  }

  /// Before a hash is made for nothing; what counts is decided as the account is made.
  private func requireFree(_ identifier: AccountIdentifier) async throws(RPCError) {
    let taken = try await look(FindAccount(for: identifier))
    guard let taken else { return }
    // What nobody proved is its owner's, who needs a code to show it.
    throw taken.isProven ? .identityInUse : .identityUnproven
  }
}
