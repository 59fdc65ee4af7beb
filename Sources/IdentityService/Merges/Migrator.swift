import Domain
import GRPC
import LatchkeyModel
import LatchkeyProtos
import Logging
import Storage

/// Hands pending merges to the migrator.
///
/// A merge is written down with the sign-in that asked for it, so signing in never waits for the migrator to be up and
/// no merge is lost when either service dies: the sign-in offers it once, and `run` goes on offering it until the
/// migrator has it. The merge's id is the idempotency key and the plan is noted before it is started, so that a
/// repeated offer starts nothing twice.
package struct Migrator: Sendable {
  private let client: MigrationV1.MigrationServiceClient
  private let records: MigrationV1.RecordServiceClient
  private let domain: IdentityDomain
  private let tokens: TokenIssuer
  private let clock: any WallClock
  private let logger: Logger

  /// - Parameter channel: to the migrator, carrying the service credential.
  package init(
    channel: any RPCChannel,
    domain: IdentityDomain,
    tokens: TokenIssuer,
    clock: any WallClock,
    logger: Logger
  ) {
    client = MigrationV1.MigrationServiceClient(channel: channel)
    records = MigrationV1.RecordServiceClient(channel: channel)
    self.domain = domain
    self.tokens = tokens
    self.clock = clock
    self.logger = logger
  }

  /// The id of the migration, or nil when the migrator has not taken it on yet.
  package func handOver(_ merge: PendingMerge) async -> String? {
    if let migration = merge.migration { return migration }
    do {
      return try await start(merge)
    } catch _ where Task.isCancelled {
      await giveBack(merge)
    } catch let error as RPCError {
      await postpone(merge, error)
    } catch {
      logger.error("a merge could not be read or written", metadata: ["merge": "\(merge.id)", "cause": "\(error)"])
    }
    return nil
  }

  /// Offers what is due, again and again, until the task is cancelled.
  package func run() async {
    while !Task.isCancelled {
      if let merge = await takeDue() {
        _ = await handOver(merge)
      } else {
        try? await Task.sleep(for: Limits.mergeRetryFirst)
      }
    }
  }

  /// One that is due is this instance's to offer for a while. One alone, so that one that dies keeps no others waiting.
  private func takeDue() async -> PendingMerge? {
    let now = clock.now()
    // A look is cheap, and mostly there is nothing.
    guard (try? await domain.look(DueMerges(at: now, limit: 1)))?.isEmpty == false else { return nil }
    return try? await domain.perform(LeaseMerges(at: now, until: now + Limits.mergeLease, limit: 1)).first
  }

  /// This instance ends: another one, or its next start, goes on at once.
  private func giveBack(_ merge: PendingMerge) async {
    await Task.detached { [domain, clock] in
      _ = try? await domain.perform(ReturnMerge(merge.id, at: clock.now()))
    }.value
  }

  /// How many rows the guest holds, for a person who has to choose. Empty when the migrator does not say in time.
  package func collections(of guest: Session) async -> [IdentityV1.CollectionCount] {
    guard let token = try? tokens.delegatedToken(of: guest, at: clock.now()) else { return [] }
    let options = CallOptions(metadata: ["authorization": "Bearer \(token)"], timeout: Limits.summaryPatience)
    guard let answer = try? await records.listCollections(MigrationV1.ListCollectionsRequest(), options: options) else {
      return []
    }
    return answer.collections.map { IdentityV1.CollectionCount(collection: $0.name, count: $0.count) }
  }

  // MARK: One merge

  private func start(_ merge: PendingMerge) async throws -> String? {
    guard let guest = try await domain.look(FindSubject(merge.guest)), guest.isGuest else {
      // It was completed meanwhile, or there is nothing left to merge.
      _ = try await domain.perform(AbandonMerge(merge.id, because: "the guest is one no longer", at: clock.now()))
      return try await domain.look(FindMerge(merge.id))?.migration
    }
    guard try await domain.look(FindSubject(merge.target))?.isAccount == true else {
      _ = try await domain.perform(AbandonMerge(merge.id, because: "the account is gone", at: clock.now()))
      return nil
    }
    var plan = merge.plan
    // A plan goes stale when the guest writes between plan and start; one noted before a crash may have expired.
    for _ in 0..<3 {
      let current: PendingMerge.Plan
      if let plan {
        current = plan
      } else {
        current = try await makePlan(merge)
        try await domain.perform(NotePlan(current, of: merge.id))
      }
      do {
        let started = try await client.startMigration(
          MigrationV1.StartMigrationRequest(
            planID: current.id, digest: current.digest, idempotencyKey: merge.id.description),
          options: options
        )
        try await domain.perform(StartMerge(merge.id, as: started.migrationID, at: clock.now()))
        logger.info("a merge has begun", metadata: ["merge": "\(merge.id)", "migration": "\(started.migrationID)"])
        return started.migrationID
      } catch let error as RPCError where [.aborted, .notFound, .failedPrecondition].contains(error.code) {
        plan = nil
      }
    }
    throw RPCError(.aborted, "the guest's data changes faster than it can be planned")
  }

  private func makePlan(_ merge: PendingMerge) async throws -> PendingMerge.Plan {
    let answer = try await client.planMigration(
      MigrationV1.PlanMigrationRequest(
        guestProof: try tokens.proof(of: merge.guest, isGuest: true, at: clock.now()),
        targetProof: try tokens.proof(of: merge.target, isGuest: false, at: clock.now()),
        firstLoginOnDevice: merge.isFirstLoginOnDevice
      ),
      options: options
    )
    return PendingMerge.Plan(id: answer.planID, digest: answer.digest)
  }

  private var options: CallOptions {
    CallOptions(timeout: Limits.migratorPatience)
  }

  /// Tries again later, unless the migrator will never take it or has not for `Limits.mergePatience`: then the guest is
  /// let go, and the account is told.
  private func postpone(_ merge: PendingMerge, _ error: RPCError) async {
    let now = clock.now()
    let reason = "\(error.code): \(error.message)"
    let isFinal = ["SUBJECT_MIGRATED", "SUBJECT_DELETED"].contains(error.details.reason)
    if isFinal || merge.createdAt.map({ now >= $0 + Limits.mergePatience }) ?? false {
      // Not where another instance did it while this one stood still.
      guard (try? await domain.perform(AbandonMerge(merge.id, because: reason, at: now))) == true else { return }
      logger.error(
        "a merge is given up", metadata: ["merge": "\(merge.id)", "guest": "\(merge.guest)", "status": "\(reason)"])
      return
    }
    let doubled = Limits.mergeRetryFirst * (1 << min(merge.attempts, 10))
    let next = now + min(doubled, Limits.mergeRetryLongest)
    logger.warning(
      "the migrator did not take a merge; it is tried again",
      metadata: ["merge": "\(merge.id)", "attempt": "\(merge.attempts + 1)", "status": "\(reason)"])
    try? await domain.perform(PostponeMerge(merge.id, because: reason, until: next))
  }
}
