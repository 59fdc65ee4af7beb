import Cryptography
import LatchkeyModel
import ServiceRuntime
import Storage
import StorageSQLite

/// What more than one room works with, made in the order in which one needs another. Only ``IdentityRooms`` sees it.
struct IdentityParts: Sendable {
  let stores: IdentityStores
  let tokens: TokenIssuer
  let auditChain: AuditChain
  let endedSessions: EndedSessions
  let sessionEvents = SessionEventHub()
  let guideWatches = GuideWatches()
  let guides: GuideFile
  let callers: CallerChecks
  let evidence: Evidence
  let records: RecordKeeper?
  /// Nil where there is no migrator.
  let migrator: Migrator?
  let removal: SubjectRemoval
  let reauthentication: Reauthentication
  let guestRoom: GuestRoom
  let replayKey: RedactedSecret

  /// Keys are in files of the data directory, which are made when there are none.
  init(_ configuration: IdentityConfiguration, _ resources: IdentityResources) async throws {
    let surroundings = resources.surroundings
    let (clock, random, logger) = (surroundings.clock, surroundings.random, surroundings.logger)
    let folder = configuration.service.dataDirectory
    let secret = try ServiceSecret(path: "\(folder)/identity-secret")
    tokens = try TokenIssuer(configuration, secret, surroundings)
    callers = CallerChecks(
      proofs: resources.proofs, tokens: tokens,
      stepUp: StepUpPolicy(maximumAge: configuration.service[CommonKeys.stepUpAge]), surroundings: surroundings)
    let auditKey = secret.key(for: "audit-log")
    auditChain = AuditChain { HMACSHA256.authenticate($0, key: auditKey.exposed) }
    endedSessions = EndedSessions(
      keepingFor: tokens.lifetimes.access + Cryptography.Limits.clockSkew, clock: clock)
    stores = IdentityStores(
      resources.database, audit: auditChain, listeners: [endedSessions, sessionEvents, guideWatches])
    endedSessions.remember(try await stores.sessions.ended(since: clock.now() - endedSessions.retention))
    guides = try GuideFile(path: configuration.guidesFile ?? "\(folder)/guides.json", logger: logger)
    let challenges = ChallengeBook(
      key: secret.key(for: "device-challenge"), lifetime: tokens.lifetimes.challenge, random: random)
    let secrets = SecretChecks(
      attempts: stores.attempts, passwords: resources.passwords, surroundings: surroundings)
    evidence = Evidence(
      secrets: secrets,
      codes: Self.codes(configuration, resources, stores, secrets, challenges, key: secret.key(for: "one-time-code")),
      idTokens: IDTokenChecks(challenges: challenges, providers: resources.providers, surroundings: surroundings),
      challenges: challenges,
      codesRequired: configuration.codesRequired
    )
    records = resources.migrator.map { [tokens] in RecordKeeper(channel: $0, tokens: tokens, clock: clock) }
    migrator = resources.migrator.map { [stores, tokens] in
      Migrator(
        channel: $0, merges: stores.merges, accounts: stores.accounts, tokens: tokens, clock: clock, logger: logger)
    }
    let purger = records.map { [stores] in
      RecordPurger(records: $0, subjects: stores.subjects, clock: clock, logger: logger)
    }
    removal = SubjectRemoval(subjects: stores.subjects, purger: purger, surroundings: surroundings)
    reauthentication = Reauthentication(links: stores.links, secrets: secrets)
    guestRoom = GuestRoom(limit: configuration.guestLimit, subjects: stores.subjects)
    replayKey = secret.key(for: "sign-in-replay")
  }

  private static func codes(
    _ configuration: IdentityConfiguration,
    _ resources: IdentityResources,
    _ stores: IdentityStores,
    _ secrets: SecretChecks,
    _ challenges: ChallengeBook,
    key: RedactedSecret
  ) -> OneTimeCodes {
    let (surroundings, policy, store) = (resources.surroundings, OneTimeCodePolicy(), stores.oneTimeCodes)
    return OneTimeCodes(
      mint: CodeMint(key: key, random: surroundings.random),
      policy: policy,
      store: store,
      accounts: stores.accounts,
      sends: CallAdmission(
        "otp", perHour: configuration.codesPerHour, exempt: configuration.service[CommonKeys.exemptNetworks],
        challenges: challenges),
      courier: CodeCourier(resources.codeSink, clock: surroundings.clock, logger: surroundings.logger) { code in
        // A code that stays is one that nobody has: it waits out its time.
        try? await store.withdraw(code, under: policy, at: surroundings.clock.now())
      },
      secrets: secrets
    )
  }
}

extension TokenIssuer {
  init(
    _ configuration: IdentityConfiguration, _ secret: ServiceSecret, _ surroundings: Surroundings
  ) throws(SigningKeyError) {
    let (service, lifetimes) = (configuration.service, configuration.tokenLifetimes)
    let issuer = service[CommonKeys.issuer]
    let own = IdentityProcess.description.name
    self.init(
      issuer: issuer,
      audiences: [own] + configuration.audiences.filter { $0 != own },
      lifetimes: lifetimes,
      keys: try SigningKeyRing(
        directory: SigningKeyDirectory(path: "\(service.dataDirectory)/signing-keys"),
        policy: SigningKeyRing.Policy(
          tokenLifetime: lifetimes.access + Cryptography.Limits.clockSkew,
          period: configuration.signingKeyPeriod
        ),
        clock: surroundings.clock
      ),
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
