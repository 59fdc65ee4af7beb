import GRPC
import LatchkeyModel
import Storage

/// Takes one migration at a time and does its steps, each in its own transaction.
struct MigrationWorker {
  private let core: MigrationCore
  private let subjects: any SubjectSwitch
  private let lease: JobLease
  private let bell = Signal()

  init(_ core: MigrationCore, subjects: any SubjectSwitch) {
    self.core = core
    self.subjects = subjects
    lease = JobLease(holder: OpaqueIDValue(from: core.random), duration: Limits.lease)
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
    guard let due = try await core.migrations.nextDue() else { return Limits.longestSleep }
    return min(max(due - core.clock.now(), .milliseconds(1)), Limits.longestSleep)
  }

  /// Claims a migration and takes it as far as it goes. False: none is due.
  func workOnce() async throws(StorageError) -> Bool {
    guard let claimed = try await core.migrations.claim(lease, at: core.clock.now()) else { return false }
    var migration = claimed.migration
    var failures = claimed.failures
    while let action = migration.action {
      // Stopping: the claim is released when the service starts again.
      if Task.isCancelled { return true }
      switch await perform(action, on: migration) {
      case .moved(let next):
        migration = next
        failures = 0
        core.signals.moved(migration.id)
      case .lost:
        core.logger.warning("a migration was taken over", metadata: ["migration": "\(migration.id)"])
        return true
      case .failed(let cause):
        if !Task.isCancelled { await postpone(migration, failures: failures + 1, cause) }
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
    case failed(String)
  }

  private func perform(_ action: Migration.Action, on migration: Migration) async -> StepOutcome {
    do throws(RPCError) {
      switch action {
      case .switchSubject: try await subjects.complete(migration)
      case .tellFailure(let reason): try await subjects.fail(migration, reason: reason)
      case .recallSubject: try await subjects.restore(migration)
      case .freezeGuest, .countRecords, .applyRecords, .verify, .purgeRecords, .undoRecords, .restoreRecords: break
      }
    } catch {
      let cause = "identity answered \(error.code): \(error.message)"
      guard action == .switchSubject || action == .recallSubject, Self.isFinal(error) else { return .failed(cause) }
      return await giveUp(action, of: migration, cause)
    }
    do throws(StorageError) {
      let moved = try await core.migrations.perform(action, of: migration.id, lease: lease, at: core.clock.now())
      return moved.map { .moved($0) } ?? .lost
    } catch {
      return .failed("\(error)")
    }
  }

  /// Whether identity will answer the same however often it is asked. The reason tells: without one, it may not have
  /// been identity that answered.
  private static func isFinal(_ error: RPCError) -> Bool {
    switch (error.code, error.details.reason) {
    case (.notFound, "GUEST_NOT_FOUND"), (.notFound, "ACCOUNT_NOT_FOUND"), (.failedPrecondition, "GUEST_GONE"),
      (.failedPrecondition, "GUEST_REPLACED"):
      true
    default: false
    }
  }

  private func giveUp(_ action: Migration.Action, of migration: Migration, _ cause: String) async -> StepOutcome {
    let now = core.clock.now()
    do throws(StorageError) {
      let moved =
        action == .recallSubject
        ? try await core.migrations.refuseUndo(of: migration.id, reason: cause, lease: lease, at: now)
        : try await core.migrations.refuseSwitch(of: migration.id, reason: cause, lease: lease, at: now)
      return moved.map { .moved($0) } ?? .lost
    } catch {
      return .failed("\(error)")
    }
  }

  private func postpone(_ migration: Migration, failures: Int, _ cause: String) async {
    let id = migration.id
    let doubled = Limits.firstRetry * (1 << min(failures - 1, 16))
    let wait = min(doubled, Limits.longestRetry)
    core.logger.warning(
      "a migration's step failed; it is tried again",
      metadata: [
        "migration": "\(id)", "step": "\(migration.step.rawValue)", "failures": "\(failures)",
        "retry_in": "\(wait)", "cause": "\(cause)",
      ])
    do throws(StorageError) {
      try await core.migrations.release(id, lease: lease, until: core.clock.now() + wait)
    } catch {
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
