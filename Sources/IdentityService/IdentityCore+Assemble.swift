import Callers
import Cryptography
import GRPC
import LatchkeyModel
import Logging
import ServiceRuntime
import Storage
import StorageSQLite
import Transfers

extension IdentityCore {
  /// The service over SQLite, with its keys in files of the data directory, which are made when there are none.
  ///
  /// - Parameters:
  ///   - migrator: a channel to the migrator that carries the service credential; nil where there is none.
  ///   - policies: nil for the document in the data directory, read once.
  ///   - exempt: networks without limits of their own.
  ///   - codeSink: nil writes codes to a file in the data directory.
  ///   - providers: nil for none.
  ///   - guidesFile: nil for guides.json in the data directory.
  package static func assemble(
    database: SQLiteDatabase,
    dataDirectory: String,
    issuer: String,
    audiences: [String],
    lifetimes: TokenLifetimes,
    signingKeyPeriod: Duration = Limits.signingKeyPeriod,
    guestsPerHour: Int = Limits.guestsPerHour,
    codesPerHour: Int = Limits.codesPerHour,
    codesRequired: Bool = false,
    registrationsPerHour: Int = Limits.registrationsPerHour,
    signInsPerHour: Int = Limits.signInsPerHour,
    exempt: [NetworkRange] = [],
    codeSink: (any CodeSink)? = nil,
    guestRetention: Duration = Limits.guestRetention,
    guestLimit: Int = Limits.guests,
    auditRefusals: Int = Limits.auditRefusals,
    auditRetention: Duration? = nil,
    cookieDomain: String? = nil,
    providers: OpenIDProviders? = nil,
    proofs: DPoPVerifier = DPoPVerifier(),
    stepUp: StepUpPolicy? = nil,
    passwords: PasswordHasher,
    migrator: (any RPCChannel)?,
    policies: PolicyFile? = nil,
    guidesFile: String? = nil,
    clock: any WallClock,
    random: RandomSource,
    logger: Logger
  ) async throws -> IdentityCore {
    let secret = try ServiceSecret(path: "\(dataDirectory)/identity-secret")
    let keys = try SigningKeyRing(
      directory: SigningKeyDirectory(path: "\(dataDirectory)/signing-keys"),
      policy: SigningKeyRing.Policy(
        tokenLifetime: lifetimes.access + Cryptography.Limits.clockSkew,
        period: signingKeyPeriod
      ),
      clock: clock
    )
    let tokens = TokenIssuer(
      issuer: issuer,
      audiences: audiences,
      lifetimes: lifetimes,
      keys: keys,
      refresh: RefreshToken.Mint(key: secret.key(for: "refresh-token")),
      random: random
    )
    let endedSessions = EndedSessions(keepingFor: lifetimes.access + Cryptography.Limits.clockSkew, clock: clock)
    let events = SessionEventHub()
    let auditKey = secret.key(for: "audit-log")
    let auditChain = AuditChain { HMACSHA256.authenticate($0, key: auditKey.exposed) }
    let guideWatches = GuideWatches()
    let challenges = ChallengeBook(
      key: secret.key(for: "device-challenge"), lifetime: lifetimes.challenge, random: random)
    let database = IdentityDatabase(database, audit: auditChain, listeners: [endedSessions, events, guideWatches])
    let accounts = SQLiteAccountStore(database)
    let sessions = SQLiteSessionStore(database)
    let merges = SQLiteMergeStore(database)
    let oneTimeCodes = SQLiteOneTimeCodeStore(database)
    endedSessions.remember(try await sessions.ended(since: clock.now() - endedSessions.retention))
    return IdentityCore(
      guests: SQLiteGuestStore(database),
      accounts: accounts,
      attempts: SQLiteAttemptStore(database),
      sessions: sessions,
      devices: SQLiteDeviceStore(database),
      subjects: SQLiteSubjectStore(database),
      transfers: SQLiteTransferStore(database),
      transferTries: NetworkTally(Limits.transferTriesPerHour, per: .seconds(3600), exempt: exempt),
      links: SQLiteLinkStore(database),
      owners: SQLiteOwnerStore(database),
      unlocks: SQLiteUnlockStore(database),
      merges: merges,
      qrGrants: SQLiteQRGrantStore(database),
      oneTimeCodes: oneTimeCodes,
      codes: CodeMint(key: secret.key(for: "one-time-code"), random: random),
      codePolicy: OneTimeCodePolicy(),
      codesRequired: codesRequired,
      codeSends: CallAdmission("otp", perHour: codesPerHour, exempt: exempt, challenges: challenges),
      registrations: CallAdmission(
        "register", perHour: registrationsPerHour, exempt: exempt, challenges: challenges),
      signIns: CallAdmission("authenticate", perHour: signInsPerHour, exempt: exempt, challenges: challenges),
      courier: CodeCourier(
        codeSink ?? FileCodeSink(path: "\(dataDirectory)/otp-outbox.jsonl"),
        clock: clock,
        logger: logger
      ) { code in
        // A code that stays is one that nobody has: it waits out its time.
        try? await oneTimeCodes.withdraw(code, under: OneTimeCodePolicy(), at: clock.now())
      },
      replayKey: secret.key(for: "sign-in-replay"),
      audit: SQLiteAuditStore(database),
      auditChain: auditChain,
      auditRetention: auditRetention,
      guideProgress: SQLiteGuideStore(database),
      tokens: tokens,
      stepUp: stepUp,
      endedSessions: endedSessions,
      sessionEvents: events,
      guides: try GuideFile(path: guidesFile ?? "\(dataDirectory)/guides.json", logger: logger),
      guideWatches: guideWatches,
      challenges: challenges,
      webCookies: WebCookies(
        key: secret.key(for: "web-cookie"), lifetime: Limits.webCookieLifetime, issuer: issuer, domain: cookieDomain),
      proofs: proofs,
      providers: providers
        ?? OpenIDProviders([], logger: logger) { _ throws(TransferError) in
          throw TransferError("there are no providers", isRetryable: false)
        },
      admission: GuestAdmission(perHour: guestsPerHour, exempt: exempt),
      identifierChecks: NetworkTally(Limits.identifierChecksPerMinute, per: .seconds(60), exempt: exempt),
      passwords: passwords,
      migrator: migrator.map { migrator in
        Migrator(
          channel: migrator,
          merges: merges,
          accounts: accounts,
          tokens: tokens,
          clock: clock,
          logger: logger
        )
      },
      recordKeeper: migrator.map { RecordKeeper(channel: $0, tokens: tokens, clock: clock) },
      guestRetention: guestRetention,
      guestLimit: guestLimit,
      auditRefusals: auditRefusals,
      policies: try policies ?? PolicyFile(path: "\(dataDirectory)/policies.json", logger: logger),
      clock: clock,
      random: random,
      logger: logger
    )
  }
}
