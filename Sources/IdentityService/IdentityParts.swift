import Cryptography
import Domain
import LatchkeyModel
import ServiceRuntime
import Storage

/// What more than one room works with, made in the order in which one needs another. Only ``IdentityRooms`` sees it.
struct IdentityParts: Sendable {
  let domain: IdentityDomain
  let tokens: TokenIssuer
  let auditChain: AuditChain
  let endedSessions: EndedSessions
  /// Nil where no other instance has the rows.
  let endedSessionTail: EndedSessionTail?
  let sessionEvents = SessionEventHub()
  let guideWatches = GuideWatches()
  let guides: GuideFile
  /// Nil where policies and guides are in files alone.
  let documents: SharedDocumentTail?
  let callers: CallerChecks
  let evidence: Evidence
  let records: RecordKeeper?
  /// Nil where there is no migrator.
  let migrator: Migrator?
  let removal: SubjectRemoval
  let notices: NoticeCourier
  let reauthentication: Reauthentication
  let guestRoom: GuestRoom
  let replayKey: RedactedSecret

  /// Keys are in files of the data directory, which are made when there are none. Those that sign are in the storage where
  /// other instances have it too.
  init(_ configuration: IdentityConfiguration, _ resources: IdentityResources) async throws {
    let surroundings = resources.surroundings
    let (clock, random, logger) = (surroundings.clock, surroundings.random, surroundings.logger)
    let folder = configuration.service.dataDirectory
    let secret = try ServiceSecret(path: "\(folder)/identity-secret")
    let keys = try await SigningKeyRing(configuration, secret, resources)
    tokens = TokenIssuer(configuration, secret, keys, surroundings)
    callers = CallerChecks(
      proofs: resources.proofs, tokens: tokens,
      stepUp: StepUpPolicy(maximumAge: configuration.service[CommonKeys.stepUpAge]), surroundings: surroundings)
    let auditKey = secret.key(for: "audit-log")
    auditChain = AuditChain { HMACSHA256.authenticate($0, key: auditKey.exposed) }
    endedSessions = EndedSessions(
      keepingFor: tokens.lifetimes.access + Cryptography.Limits.clockSkew, clock: clock,
      isShared: resources.storage.sharedEndings != nil)
    let droppedNotices = DroppedNotices()
    let news = SessionNews(
      endedSessions, [sessionEvents, guideWatches], isShared: resources.storage.sharedEndings != nil)
    domain = IdentityDomain(resources.storage, audit: auditChain, listeners: [news, droppedNotices])
    if let endings = resources.storage.sharedEndings {
      endedSessionTail = try await EndedSessionTail(
        endings, endedSessions, news, membership: resources.membership, surroundings)
    } else {
      endedSessionTail = nil
      endedSessions.remember(try await domain.look(SessionsEnded(since: clock.now() - endedSessions.retention)))
    }
    guides = try GuideFile(path: configuration.guidesFile ?? "\(folder)/guides.json", logger: logger)
    if let rows = resources.storage.sharedDocuments {
      documents = try await SharedDocumentTail(
        rows, policies: resources.policies, guides: guides, guideWatches: guideWatches, auditChain, surroundings)
    } else {
      documents = nil
    }
    let challenges = ChallengeBook(
      key: secret.key(for: "device-challenge"), lifetime: tokens.lifetimes.challenge, random: random)
    let secrets = SecretChecks(domain: domain, passwords: resources.passwords, surroundings: surroundings)
    evidence = Evidence(
      secrets: secrets,
      codes: Self.codes(configuration, resources, domain, secrets, challenges, key: secret.key(for: "one-time-code")),
      idTokens: IDTokenChecks(challenges: challenges, providers: resources.providers, surroundings: surroundings),
      challenges: challenges,
      codesRequired: configuration.codesRequired
    )
    records = resources.migrator.map { [tokens] in RecordKeeper(channel: $0, tokens: tokens, clock: clock) }
    migrator = resources.migrator.map { [domain, tokens] in
      Migrator(channel: $0, domain: domain, tokens: tokens, clock: clock, logger: logger)
    }
    let purger = records.map { [domain] in
      RecordPurger(records: $0, domain: domain, clock: clock, logger: logger)
    }
    removal = SubjectRemoval(domain: domain, purger: purger, surroundings: surroundings)
    notices = NoticeCourier(
      resources.codeSink, domain: domain, dropped: droppedNotices, surroundings: surroundings)
    reauthentication = Reauthentication(domain: domain, secrets: secrets)
    guestRoom = GuestRoom(
      limit: configuration.guestLimit, domain: domain, among: InstanceCount(resources.membership))
    replayKey = secret.key(for: "sign-in-replay")
  }

  private static func codes(
    _ configuration: IdentityConfiguration,
    _ resources: IdentityResources,
    _ domain: IdentityDomain,
    _ secrets: SecretChecks,
    _ challenges: ChallengeBook,
    key: RedactedSecret
  ) -> OneTimeCodes {
    let (surroundings, policy) = (resources.surroundings, OneTimeCodePolicy())
    let exempt = configuration.service[CommonKeys.exemptNetworks]
    let instances = InstanceCount(resources.membership)
    return OneTimeCodes(
      mint: CodeMint(key: key, random: surroundings.random),
      policy: policy,
      domain: domain,
      sends: CallAdmission(
        "otp", perHour: configuration.codesPerHour, exempt: exempt, among: instances, challenges: challenges),
      // As often as it may sign in.
      recoverers: NetworkTally(configuration.signInsPerHour, per: .seconds(3600), exempt: exempt, among: instances),
      presenters: NetworkTally(configuration.signInsPerHour, per: .seconds(3600), exempt: exempt, among: instances),
      courier: CodeCourier(resources.codeSink, clock: surroundings.clock, logger: surroundings.logger) { code in
        // A code that stays is one that nobody has: it waits out its time.
        try? await domain.perform(WithdrawCode(code, under: policy, at: surroundings.clock.now()))
      },
      secrets: secrets
    )
  }
}

extension TokenIssuer {
  init(
    _ configuration: IdentityConfiguration, _ secret: ServiceSecret, _ keys: SigningKeyRing,
    _ surroundings: Surroundings
  ) {
    let (service, lifetimes) = (configuration.service, configuration.tokenLifetimes)
    let issuer = service[CommonKeys.issuer]
    let own = IdentityProcess.description.name
    self.init(
      issuer: issuer,
      audiences: [own] + configuration.audiences.filter { $0 != own },
      lifetimes: lifetimes,
      keys: keys,
      refresh: RefreshToken.Mint(key: secret.key(for: "refresh-token")),
      cookies: WebCookies(
        key: secret.key(for: "web-cookie"),
        lifetime: Limits.webCookieLifetime,
        issuer: issuer,
        domain: configuration.cookieDomain
      ),
      random: surroundings.random
    )
  }
}

extension SigningKeyRing {
  /// The keys of the storage where other instances have it too, and else those of a folder.
  convenience init(
    _ configuration: IdentityConfiguration, _ secret: ServiceSecret, _ resources: IdentityResources
  ) async throws(SigningKeyError) {
    let directory = SigningKeyDirectory(path: "\(configuration.service.dataDirectory)/signing-keys")
    let clock = resources.surroundings.clock
    let policy = Policy(
      tokenLifetime: configuration.tokenLifetimes.access + Cryptography.Limits.clockSkew,
      period: configuration.signingKeyPeriod)
    let sealing = secret.key(for: "signing-keys")
    guard let rows = resources.storage.sharedSigningKeys else {
      try SealedKeyFile(
        path: "\(configuration.service.dataDirectory)/signing-keys.sealed", secret: sealing
      ).move(to: directory)
      try await self.init(SigningKeyFiles(directory, clock: clock), policy: policy, clock: clock)
      return
    }
    let store = SealedKeyStore(rows, secret: sealing, membership: resources.membership)
    if !(try await store.adopt(directory, period: configuration.signingKeyPeriod)) {
      resources.surroundings.logger.warning(
        "the signing keys of a folder are too old to be taken over: remove it",
        metadata: ["folder": "\(directory.path)"])
    }
    try await self.init(store, policy: policy, clock: clock)
  }
}
