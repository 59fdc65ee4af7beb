import Domain
import GRPC
import LatchkeyModel
import Logging
import ServiceRuntime
import Storage

/// What the handlers and the workers share.
package struct MigrationCore: Sendable {
  /// Decides and remembers.
  package let domain: MigrationDomain
  /// How each collection is merged when a plan does not say otherwise.
  package let rules: CollectionRules
  /// What guests and accounts may store.
  package let guestBounds: RecordBounds
  package let accountBounds: RecordBounds
  /// Verifies the proofs of PlanMigration, as it verifies the tokens of callers.
  package let tokens: TokenAuthenticator
  package let clock: any WallClock
  package let random: RandomSource
  package let logger: Logger
  private let failures: StorageFailureLog
  /// Counts what becomes of migrations.
  package let meters: MigrationMeters?
  /// How often accounts ask for plans.
  let plans: RateLimiter<SubjectID>
  /// Wakes whoever waits for work or for a migration to move.
  let signals: MigrationSignals

  package init(
    domain: MigrationDomain,
    rules: CollectionRules,
    guestBounds: RecordBounds,
    accountBounds: RecordBounds,
    tokens: TokenAuthenticator,
    clock: any WallClock,
    random: RandomSource,
    logger: Logger,
    meters: MigrationMeters? = nil,
    instances: InstanceCount = .one
  ) {
    _ = Limits.assertions
    self.domain = domain
    self.rules = rules
    self.guestBounds = guestBounds
    self.accountBounds = accountBounds
    self.tokens = tokens
    self.clock = clock
    self.random = random
    self.logger = logger
    failures = StorageFailureLog(logger)
    self.meters = meters
    plans = RateLimiter(Rate(Limits.plansPerMinute, per: .seconds(60)), among: instances)
    signals = MigrationSignals()
  }

  /// Waits until a migration moved, for `Limits.watchRefresh` at most. The watch ends when its caller's session does.
  func waitForChange(_ changes: MigrationSignals.Watch, of context: ServerContext) async throws(RPCError) {
    let end = ContinuousClock.now + Limits.watchRefresh
    while true {
      let hasMoved = await changes.next(within: Limits.sessionRecheck)
      if case .subject(let caller) = context.caller { try tokens.checkSession(of: caller) }
      if hasMoved || ContinuousClock.now >= end || context.isCancelled || Task.isCancelled { return }
    }
  }

  /// Runs a command, and turns what went wrong with the store into what the client may know.
  func perform<Command: MigrationCommand>(_ command: Command) async throws(RPCError) -> Command.Outcome {
    do throws(StorageError) {
      return try await domain.perform(command)
    } catch {
      throw answer(error)
    }
  }

  /// Looks something up, likewise.
  func look<Query: MigrationOperation>(_ query: Query) async throws(RPCError) -> Query.Outcome {
    do throws(StorageError) {
      return try await domain.look(query)
    } catch {
      throw answer(error)
    }
  }

  /// Says a failure once: its cause in the log, what the client may know in the answer.
  private func answer(_ error: StorageError) -> RPCError {
    failures.note(error, at: clock.now())
    return RPCError(storage: error)
  }
}
