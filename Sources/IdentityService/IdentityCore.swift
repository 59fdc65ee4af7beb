import Cryptography
import GRPC
import LatchkeyModel
import Logging
import ServiceRuntime
import Storage

/// What every handler of the service works with.
package struct IdentityCore: Sendable {
  package let guests: any GuestStore
  package let accounts: any AccountStore
  package let attempts: any AttemptStore
  package let sessions: any SessionStore
  package let devices: any DeviceStore
  package let subjects: any SubjectStore
  package let transfers: any TransferStore
  package let transferTries: NetworkTally
  package let links: any LinkStore
  package let owners: any OwnerStore
  package let unlocks: any UnlockStore
  package let merges: any MergeStore
  package let qrGrants: any QRGrantStore
  package let oneTimeCodes: any OneTimeCodeStore
  package let codes: CodeMint
  package let codePolicy: OneTimeCodePolicy
  /// Whether an e-mail address or phone number leads to an account only with a code.
  package let codesRequired: Bool
  package let codeSends: CallAdmission
  package let registrations: CallAdmission
  package let signIns: CallAdmission
  package let courier: CodeCourier
  /// Keys the hashes of requests that may be asked for again.
  package let replayKey: RedactedSecret
  package let audit: any AuditStore
  package let auditChain: AuditChain
  /// How long security events are kept; nil for ever.
  package let auditRetention: Duration?
  package let refusals: RefusalRecorder
  package let guideProgress: any GuideStore
  package let tokens: TokenIssuer
  /// How recent a proof must be to change who gets in.
  package let stepUp: StepUpPolicy?
  package let endedSessions: EndedSessions
  package let sessionEvents: SessionEventHub
  package let guides: GuideFile
  package let guideWatches: GuideWatches
  package let challenges: ChallengeBook
  package let webCookies: WebCookies
  package let proofs: DPoPVerifier
  package let providers: OpenIDProviders
  package let admission: GuestAdmission
  package let guestRoom: GuestRoom
  package let identifierChecks: NetworkTally
  package let passwords: PasswordHasher
  /// Nil where no migrator is configured: then nobody can merge.
  package let migrator: Migrator?
  /// The migrator's record store; nil where there is none.
  package let recordKeeper: RecordKeeper?
  package let purger: RecordPurger?
  package let retention: GuestRetention
  package let policies: PolicyFile
  package let clock: any WallClock
  package let random: RandomSource
  package let logger: Logger
  package let surroundings: Surroundings

  package init(
    guests: any GuestStore,
    accounts: any AccountStore,
    attempts: any AttemptStore,
    sessions: any SessionStore,
    devices: any DeviceStore,
    subjects: any SubjectStore,
    transfers: any TransferStore,
    transferTries: NetworkTally,
    links: any LinkStore,
    owners: any OwnerStore,
    unlocks: any UnlockStore,
    merges: any MergeStore,
    qrGrants: any QRGrantStore,
    oneTimeCodes: any OneTimeCodeStore,
    codes: CodeMint,
    codePolicy: OneTimeCodePolicy,
    codesRequired: Bool,
    codeSends: CallAdmission,
    registrations: CallAdmission,
    signIns: CallAdmission,
    courier: CodeCourier,
    replayKey: RedactedSecret,
    audit: any AuditStore,
    auditChain: AuditChain,
    auditRetention: Duration?,
    guideProgress: any GuideStore,
    tokens: TokenIssuer,
    stepUp: StepUpPolicy?,
    endedSessions: EndedSessions,
    sessionEvents: SessionEventHub,
    guides: GuideFile,
    guideWatches: GuideWatches,
    challenges: ChallengeBook,
    webCookies: WebCookies,
    proofs: DPoPVerifier,
    providers: OpenIDProviders,
    admission: GuestAdmission,
    identifierChecks: NetworkTally,
    passwords: PasswordHasher,
    migrator: Migrator?,
    recordKeeper: RecordKeeper?,
    guestRetention: Duration,
    guestLimit: Int,
    auditRefusals: Int,
    policies: PolicyFile,
    clock: any WallClock,
    random: RandomSource,
    logger: Logger
  ) {
    self.guests = guests
    self.accounts = accounts
    self.attempts = attempts
    self.sessions = sessions
    self.devices = devices
    self.subjects = subjects
    self.transfers = transfers
    self.transferTries = transferTries
    self.links = links
    self.owners = owners
    self.unlocks = unlocks
    self.merges = merges
    self.qrGrants = qrGrants
    self.oneTimeCodes = oneTimeCodes
    self.codes = codes
    self.codePolicy = codePolicy
    self.codesRequired = codesRequired
    self.codeSends = codeSends
    self.registrations = registrations
    self.signIns = signIns
    self.courier = courier
    self.replayKey = replayKey
    self.audit = audit
    self.auditChain = auditChain
    self.auditRetention = auditRetention
    refusals = RefusalRecorder(audit, limit: auditRefusals, clock: clock, logger: logger)
    self.guideProgress = guideProgress
    self.tokens = tokens
    self.stepUp = stepUp
    self.endedSessions = endedSessions
    self.sessionEvents = sessionEvents
    self.guides = guides
    self.guideWatches = guideWatches
    self.challenges = challenges
    self.webCookies = webCookies
    self.proofs = proofs
    self.providers = providers
    self.admission = admission
    self.identifierChecks = identifierChecks
    self.passwords = passwords
    self.migrator = migrator
    self.recordKeeper = recordKeeper
    purger = recordKeeper.map { RecordPurger(records: $0, subjects: subjects, clock: clock, logger: logger) }
    guestRoom = GuestRoom(limit: guestLimit, subjects: subjects)
    retention = GuestRetention(
      period: guestRetention, subjects: subjects, records: recordKeeper, clock: clock, logger: logger)
    self.policies = policies
    self.clock = clock
    self.random = random
    self.logger = logger
    surroundings = Surroundings(clock: clock, random: random, logger: logger)
  }

  package var lifetimes: TokenLifetimes { tokens.lifetimes }

  /// Runs a store's operation, and turns what went wrong into what the client may know; the cause is logged here.
  func stored<Value: Sendable>(
    _ operation: () async throws(StorageError) -> Value
  ) async throws(RPCError) -> Value {
    try await surroundings.stored(operation)
  }
}
