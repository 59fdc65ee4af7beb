import Domain
import GRPC
import LatchkeyModel
import Storage

/// Takes one migration at a time and does its steps, each in its own transaction, until it is done or has had its turn.
struct MigrationWorker {
  private let core: MigrationCore
  private let subjects: any SubjectSwitch
  private let bell = Signal()

  init(_ core: MigrationCore, subjects: any SubjectSwitch) {
    self.core = core
    self.subjects = subjects
  }

  func run() async {
    core.signals.addWorker(bell)
    defer { core.signals.removeWorker(bell) }
    while !Task.isCancelled {
      let sleep: Duration
      do throws(StorageError) {
        if try await workOnce() { continue }
        sleep = try await timeToNext()
      } catch {
        if error.fault != .cancelled { core.logger.error("the queue cannot be used", metadata: ["cause": "\(error)"]) }
        sleep = Limits.firstRetry
      }
      await bell.wait(within: sleep)
    }
  }

  private func timeToNext() async throws(StorageError) -> Duration {
    guard let due = try await core.domain.look(FindNextDue()) else { return Limits.longestSleep }
    return min(max(due - core.clock.now(), Limits.shortestSleep), Limits.longestSleep)
  }

  /// Claims the migration that has waited longest and takes it as far as it goes in one turn. False: none is due.
  func workOnce() async throws(StorageError) -> Bool {
    // Of this claim alone: what is still under way of one that was lost can do nothing.
    let lease = JobLease(holder: OpaqueIDValue(from: core.random), duration: Limits.lease)
    let started = ContinuousClock.now
    guard let claimed = try await core.domain.perform(ClaimMigration(lease, at: core.clock.now())) else { return false }
    var migration = claimed.migration
    var failures = claimed.failures
    while let action = migration.action {
      if Task.isCancelled {
        await giveBack(migration, lease)
        return true
      }
      switch await perform(action, on: migration, startedWith: claimed.idempotencyKey, lease) {
      case .moved(let next):
        migration = next
        failures = 0
        core.signals.unhinder(migration.id)
        core.signals.moved(migration.id)
        if !migration.isFinished, ContinuousClock.now - started >= Limits.turn, await rest(migration, lease) {
          return true
        }
      case .lost:
        core.logger.warning(
          "a migration was taken over", metadata: ["migration": "\(migration.id)", "claim": "\(claimed.epoch)"])
        return true
      case .failed(let cause):
        if Task.isCancelled {
          await giveBack(migration, lease)
        } else {
          await postpone(migration, under: (lease, claimed.epoch), failures: failures + 1, cause)
          core.signals.moved(migration.id)
        }
        return true
      }
    }
    report(migration)
    return true
  }

  private enum StepOutcome {
    case moved(Migration)
    /// Somebody else has the migration: the claim ran out.
    case lost
    case failed(Cause)
  }

  /// Why a step failed: as the log has it, and as who waits for the migration may know it.
  private struct Cause {
    let text: String
    let hindrance: String

    init(identity text: String) {
      self.text = text
      hindrance = text
    }

    init(_ error: StorageError) {
      text = "\(error)"
      hindrance = error.fault == .full ? "the disk of the migrator is full" : "the migrator's store failed"
    }
  }

  private func perform(
    _ action: Migration.Action, on migration: Migration, startedWith key: String, _ lease: JobLease
  ) async -> StepOutcome {
    do throws(RPCError) {
      switch action {
      case .switchSubject: try await subjects.complete(migration)
      case .tellFailure(let reason): try await subjects.fail(migration, startedWith: key, reason: reason)
      case .recallSubject: try await subjects.restore(migration)
      case .freezeGuest, .countRecords, .applyRecords, .verify, .purgeRecords, .undoRecords, .restoreRecords: break
      }
    } catch {
      let cause = "identity answered \(error.code): \(error.message)"
      guard action == .switchSubject || action == .recallSubject, Self.isFinal(error) else {
        return .failed(Cause(identity: cause))
      }
      return await giveUp(action, of: migration, lease, cause)
    }
    do throws(StorageError) {
      let moved = try await core.domain.take(action, of: migration.id, lease: lease, at: core.clock.now())
      return moved.map { .moved($0) } ?? .lost
    } catch {
      return .failed(Cause(error))
    }
  }

  /// Whether identity will answer the same however often it is asked. The reason tells: without one, it may not have
  /// been identity that answered.
  private static func isFinal(_ error: RPCError) -> Bool {
    switch (error.code, error.details.reason) {
    case (.notFound, "GUEST_NOT_FOUND"), (.notFound, "ACCOUNT_NOT_FOUND"), (.failedPrecondition, "GUEST_GONE"),
      (.failedPrecondition, "GUEST_REPLACED"), (.failedPrecondition, "MIGRATION_RECALLED"):
      true
    default: false
    }
  }

  private func giveUp(
    _ action: Migration.Action, of migration: Migration, _ lease: JobLease, _ cause: String
  ) async -> StepOutcome {
    let now = core.clock.now()
    do throws(StorageError) {
      let moved = try await core.domain.perform(
        RefuseStep(
          action == .recallSubject ? .recall : .switch, of: migration.id, reason: cause, lease: lease, at: now))
      return moved.map { .moved($0) } ?? .lost
    } catch {
      return .failed(Cause(error))
    }
  }

  /// Lets what else is due have its turn. False: it goes on, for the store could not note that.
  private func rest(_ migration: Migration, _ lease: JobLease) async -> Bool {
    do throws(StorageError) {
      try await core.domain.perform(
        ReleaseMigration(migration.id, lease: lease, until: core.clock.now(), because: .turnIsOver))
      return true
    } catch {
      return false
    }
  }

  /// The service stops: another instance, or this one after its start, need not wait until the claim runs out.
  private func giveBack(_ migration: Migration, _ lease: JobLease) async {
    let (domain, now) = (core.domain, core.clock.now())
    // Of its own, because a task that was cancelled is served no more. What goes wrong here ends with the claim.
    await Task {
      _ = try? await domain.perform(ReleaseMigration(migration.id, lease: lease, until: now, because: .turnIsOver))
    }.value
  }

  private func postpone(
    _ migration: Migration, under claim: (lease: JobLease, epoch: Int64), failures: Int, _ cause: Cause
  ) async {
    let id = migration.id
    let doubled = Limits.firstRetry * (1 << min(failures - 1, 16))
    let wait = min(doubled, Limits.longestRetry)
    core.logger.warning(
      "a migration's step failed; it is tried again",
      metadata: [
        "migration": "\(id)", "step": "\(migration.step.rawValue)", "failures": "\(failures)",
        "retry_in": "\(wait)", "cause": "\(cause.text)",
      ])
    let hindrance = String(cause.hindrance.prefix(Limits.hindranceCharacters))
    do throws(StorageError) {
      try await core.domain.perform(
        ReleaseMigration(id, lease: claim.lease, until: core.clock.now() + wait, because: .failed(hindrance)))
      core.signals.unhinder(id)
    } catch {
      core.signals.hinder(id, hindrance, claim: claim.epoch)
      // The claim runs out by itself.
      core.logger.error("a claim could not be given back", metadata: ["migration": "\(id)", "cause": "\(error)"])
    }
  }

  private func report(_ migration: Migration) {
    core.meters?.count(migration)
    switch migration.state {
    case .failed(let step, let reason, _):
      core.logger.critical(
        "a migration failed; everybody has the records that they had before",
        metadata: ["migration": "\(migration.id)", "step": "\(step.rawValue)", "cause": "\(reason)"])
    case .undone:
      core.logger.notice("a migration was taken back", metadata: ["migration": "\(migration.id)"])
    default:
      if let refusal = migration.undoRefusal {
        core.logger.notice(
          "a migration cannot be taken back", metadata: ["migration": "\(migration.id)", "cause": "\(refusal)"])
        return
      }
      core.logger.notice(
        "a migration is done", metadata: ["migration": "\(migration.id)", "records": "\(migration.total)"])
    }
  }
}
