import GRPC
import LatchkeyProtos

extension DeviceClient {
  /// Makes an account. When a guest uses this device, the guest becomes the account and keeps its subject and data.
  ///
  /// Errors: the service's `ALREADY_EXISTS` with reason `IDENTITY_IN_USE` when the identifier has an account.
  public func register(
    identifier: String,
    password: String,
    nickname: String = "",
    locale: String = ""
  ) async throws(ClientError) -> SignIn {
    try await register(
      IdentityV1.RegisterRequest(
        clientID: configuration.clientID,
        password: IdentityV1.PasswordCredential(identifier: identifier, password: password),
        guestToken: try await guestToken(),
        nickname: nickname,
        locale: locale
      ))
  }

  /// Makes an account that signs in by codes, with the code that was sent to the address to prove it.
  public func register(
    address: String,
    code: String,
    nickname: String = "",
    locale: String = ""
  ) async throws(ClientError) -> SignIn {
    try await register(
      IdentityV1.RegisterRequest(
        clientID: configuration.clientID,
        guestToken: try await guestToken(),
        nickname: nickname,
        locale: locale,
        otp: codeCredential(address, code)
      ))
  }

  /// Makes an account of a name and a secret that the app made for itself.
  public func register(customID: String, secret: String) async throws(ClientError) -> SignIn {
    try await register(
      IdentityV1.RegisterRequest(
        clientID: configuration.clientID,
        guestToken: try await guestToken(),
        customSecret: IdentityV1.CustomSecretCredential(id: customID, secret: secret)
      ))
  }

  private func register(_ request: IdentityV1.RegisterRequest) async throws(ClientError) -> SignIn {
    let auth = IdentityV1.AuthServiceClient(channel: identity)
    let answer = try await open { options throws(RPCError) in
      let working = Working(request) { request, challenge, solution in
        request.challenge = challenge
        request.powSolution = solution
      }
      return try await working.send { request throws(RPCError) in
        try await auth.register(request, options: options)
      }
    }
    return try finish(
      tokens: answer.tokens,
      subject: answer.subject,
      profile: answer.profile,
      change: answer.accountChange,
      namespace: answer.storageNamespace
    )
  }

  /// Signs in with an identifier and its password. `onConflict` says what becomes of this device's guest.
  public func signIn(
    identifier: String,
    password: String,
    onConflict: ConflictChoice = .report,
    deviceLabel: String = "",
    locale: String = ""
  ) async throws(ClientError) -> SignInOutcome {
    try await signIn(
      with: .password(identifier: identifier, password: password),
      onConflict: onConflict,
      deviceLabel: deviceLabel,
      locale: locale
    )
  }

  /// Signs in with any credential. `onConflict` says what becomes of this device's guest.
  public func signIn(
    with credential: SignInCredential,
    onConflict: ConflictChoice = .report,
    deviceLabel: String = "",
    locale: String = ""
  ) async throws(ClientError) -> SignInOutcome {
    let request = IdentityV1.AuthenticateRequest(
      clientID: configuration.clientID,
      method: try await method(credential),
      guestToken: try await guestToken(forMerge: onConflict == .merge),
      onConflict: onConflict.proto,
      deviceLabel: deviceLabel,
      locale: locale
    )
    return try await authenticate(request)
  }

  /// Sends a one-time code to an e-mail address or phone number.
  public func sendCode(
    to address: String,
    purpose: CodePurpose = .signIn,
    locale: String = ""
  ) async throws(ClientError) -> CodeSent {
    let auth = IdentityV1.AuthServiceClient(channel: identity)
    let request = IdentityV1.SendOtpRequest(
      clientID: configuration.clientID, identifier: address, locale: locale, purpose: purpose.proto,
      guestToken: try await guestToken())
    let answer = try await open { options throws(RPCError) in
      let working = Working(request) { request, challenge, solution in
        request.challenge = challenge
        request.powSolution = solution
      }
      return try await working.send { request throws(RPCError) in
        try await auth.sendOtp(request, options: options)
      }
    }
    remember(codeHandle: answer.handle, for: address)
    return CodeSent(
      expiresIn: .told(seconds: answer.expiresIn),
      resendAfter: .told(seconds: answer.resendAfter),
      attemptsLeft: Int(answer.attemptsLeft)
    )
  }

  /// A nonce to ask an OpenID provider for an ID token with. Holds once, for five minutes.
  public func idTokenNonce() async throws(ClientError) -> String {
    let guests = IdentityV1.GuestServiceClient(channel: identity)
    let request = IdentityV1.GetChallengeRequest(clientID: configuration.clientID, purpose: .idTokenNonce)
    return try await open { options throws(RPCError) in
      try await guests.getChallenge(request, options: options)
    }.challenge
  }

  /// Lets a pattern or PIN sign in to the account on this device. An earlier one of this device is replaced.
  ///
  /// - Parameter password: the account's; not needed a moment after a sign-in.
  public func enrolPattern(_ pattern: String, password: String = "") async throws(ClientError) {
    let links = IdentityV1.LinkServiceClient(channel: identity)
    let enrolment = IdentityV1.PatternEnrolment(
      proof: try await deviceProof(for: .enrolPattern), pattern: pattern)
    let request = IdentityV1.LinkIdentityRequest(identity: .pattern(enrolment), password: password)
    _ = try await authorized { options throws(RPCError) in
      try await links.linkIdentity(request, options: options)
    }
  }

  private func method(
    _ credential: SignInCredential
  ) async throws(ClientError) -> IdentityV1.AuthenticateRequest.Method {
    switch credential {
    case .password(let identifier, let password):
      .password(IdentityV1.PasswordCredential(identifier: identifier, password: password))
    case .code(let identifier, let code): .otp(codeCredential(identifier, code))
    case .customSecret(let id, let secret):
      .customSecret(IdentityV1.CustomSecretCredential(id: id, secret: secret))
    case .idToken(let token, let nonce):
      .idToken(IdentityV1.IdTokenCredential(idToken: token, nonce: nonce))
    case .pattern(let pattern):
      .pattern(IdentityV1.PatternCredential(proof: try await deviceProof(for: .pattern), pattern: pattern))
    case .deviceKey: .deviceKey(IdentityV1.DeviceKeyCredential(proof: try await deviceProof(for: .unlock)))
    }
  }

  /// Redeems a ``SignInConflict`` with the choice that a person made. The credential is not asked for again.
  public func choose(
    _ choice: ConflictChoice,
    linkTicket: String,
    deviceLabel: String = "",
    locale: String = ""
  ) async throws(ClientError) -> SignInOutcome {
    let request = IdentityV1.AuthenticateRequest(
      clientID: configuration.clientID,
      guestToken: try await guestToken(forMerge: choice == .merge),
      onConflict: choice.proto,
      linkTicket: linkTicket,
      deviceLabel: deviceLabel,
      locale: locale
    )
    return try await authenticate(request)
  }

  /// Ends sessions of whoever is signed in. With `thenGuest`, this device's guest takes over in the same step, and its
  /// session is returned.
  ///
  /// A local or global sign-out forgets this device's credential even when the service no longer knows it.
  public func signOut(
    _ scope: SignOutScope = .local,
    thenGuest: Bool = false
  ) async throws(ClientError) -> Session? {
    let before = try storedSession()
    let auth = IdentityV1.AuthServiceClient(channel: identity)
    let request = IdentityV1.LogoutRequest(scope: scope.proto, next: thenGuest ? .guest : .none)
    let answer: IdentityV1.LogoutResponse
    do throws(ClientError) {
      answer = try await authorized { options throws(RPCError) in
        try await auth.logout(request, options: options)
      }
    } catch {
      // Somebody else ended the session: what was asked for is done.
      if case .sessionEnded = error, scope == .local, !thenGuest { return nil }
      throw error
    }
    if let tokens = answer.tokens {
      let subject = try require(answer.subject, "LogoutResponse.subject")
      let session = stored(
        tokens,
        sub: subject.sub,
        isGuest: subject.isGuest,
        namespace: answer.storageNamespace
      )
      try keep(session, insteadOf: before)
      return session.session
    }
    if thenGuest { throw .incompleteAnswer("LogoutResponse.tokens") }
    if scope != .others { try keep(nil, insteadOf: before) }
    return nil
  }

  private func authenticate(_ request: IdentityV1.AuthenticateRequest) async throws(ClientError) -> SignInOutcome {
    let auth = IdentityV1.AuthServiceClient(channel: identity)
    let answer = try await open { options throws(RPCError) in
      let working = Working(request) { request, challenge, solution in
        request.challenge = challenge
        request.powSolution = solution
      }
      return try await working.send { request throws(RPCError) in
        try await auth.authenticate(request, options: options)
      }
    }
    if let conflict = answer.conflict {
      return .conflict(
        SignInConflict(
          linkTicket: conflict.linkTicket,
          existingMask: conflict.existingMask,
          guestRows: (conflict.guestSummary?.collections ?? []).map { collection in
            SignInConflict.Collection(name: collection.collection, count: collection.count)
          },
          choices: conflict.choices.compactMap { ConflictChoice($0) },
          expiresIn: .told(seconds: conflict.expiresIn)
        )
      )
    }
    return .signedIn(
      try finish(
        tokens: answer.tokens,
        subject: answer.subject,
        profile: answer.profile,
        change: answer.accountChange,
        namespace: answer.storageNamespace
      )
    )
  }

  /// The guest's access token when a guest uses this device, for the service to know whose data is at stake. For a
  /// merge, also that of a guest who was left behind by an earlier sign-in.
  func guestToken(forMerge: Bool = false) async throws(ClientError) -> String {
    if let session = try storedSession(), session.isGuest { return try await usableSession().accessToken }
    guard forMerge, try storedSession(.guestLeftBehind) != nil else { return "" }
    do throws(ClientError) {
      return try await leftBehindGuestToken()
    } catch {
      // That guest is gone: there is nothing of it to merge, and no reason not to sign in.
      if case .signedOut = error { return "" }
      throw error
    }
  }

  func finish(
    tokens: CommonV1.TokenSet?,
    subject: CommonV1.Subject?,
    profile: CommonV1.Profile?,
    change: IdentityV1.AccountChange?,
    namespace: String
  ) throws(ClientError) -> SignIn {
    let tokens = try require(tokens, "tokens")
    let subject = try require(subject, "subject")
    let session = stored(tokens, sub: subject.sub, isGuest: subject.isGuest, namespace: namespace)
    if let change, !change.migrationID.isEmpty {
      try forgetSession(.guestLeftBehind)
    } else if let left = try storedSession(), left.isGuest, left.sub != session.sub {
      // A guest that stays behind keeps its session, so that its data can still follow.
      try keep(left, .guestLeftBehind)
    }
    try keep(session)
    return SignIn(
      session: session.session,
      profile: Profile(
        name: profile?.name ?? "",
        avatarURL: profile?.avatarURL ?? "",
        locale: profile?.locale ?? ""
      ),
      change: change.map { change in
        AccountChange(
          previousSubject: change.previousSub.isEmpty ? nil : SubjectID(change.previousSub),
          promoted: change.promoted,
          wipeRequired: change.wipeRequired,
          migrationID: change.migrationID.isEmpty ? nil : change.migrationID,
          migrationPending: change.migrationPending
        )
      }
    )
  }
}
