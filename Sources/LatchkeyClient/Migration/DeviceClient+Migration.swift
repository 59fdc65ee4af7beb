import Cryptography
import GRPC
import LatchkeyModel
import LatchkeyProtos

extension DeviceClient {
  /// Says what moving the data of the guest who used this device before would do.
  ///
  /// Errors: ``ClientError/signedOut`` when no account uses the device or no guest was left behind.
  public func planMerge(policies: [String: MergePolicy] = [:]) async throws(ClientError) -> MergePlan {
    let service = MigrationV1.MigrationServiceClient(channel: migrator)
    let request = MigrationV1.PlanMigrationRequest(
      guestProof: try await leftBehindGuestToken(),
      targetProof: try await usableSession().accessToken,
      policyOverrides: policies.sorted { $0.key < $1.key }.map { collection, policy in
        MigrationV1.PolicyOverride(collection: collection, policy: policy.proto)
      }
    )
    let answer = try await authorized { options throws(RPCError) in
      try await service.planMigration(request, options: options)
    }
    return MergePlan(
      id: answer.planID,
      digest: answer.digest,
      collections: answer.collections.map { collection in
        MergePlan.Collection(
          name: collection.name,
          guestRows: collection.sourceCount,
          accountRows: collection.targetCount,
          conflicts: collection.conflicts,
          policy: MergePolicy(collection.policy),
          refused: collection.refused
        )
      },
      expiresIn: .told(seconds: answer.expiresIn)
    )
  }

  /// Starts a plan and returns the merge's id. Idempotent for each plan and key: repeat a call whose answer was lost
  /// with the same key.
  public func startMerge(
    planID: String,
    digest: String,
    idempotencyKey: String? = nil
  ) async throws(ClientError) -> String {
    let service = MigrationV1.MigrationServiceClient(channel: migrator)
    let request = MigrationV1.StartMigrationRequest(
      planID: planID,
      digest: digest,
      idempotencyKey: idempotencyKey ?? Base64URL.encode(SecureRandom.bytes(16))
    )
    let answer = try await authorized { options throws(RPCError) in
      try await service.startMigration(request, options: options)
    }
    return answer.migrationID
  }

  /// Where a merge stands, with its report when it is done.
  public func merge(id: String) async throws(ClientError) -> Merge {
    let service = MigrationV1.MigrationServiceClient(channel: migrator)
    let answer = try await authorized { options throws(RPCError) in
      try await service.getMigration(MigrationV1.GetMigrationRequest(migrationID: id), options: options)
    }
    return try Merge(try require(answer.migration, "GetMigrationResponse.migration"))
  }

  /// Follows a merge to its end, calling `changed` with every state on the way. A watch that breaks off is taken up
  /// again. What is returned is ``Merge/isFinished``.
  public func watchMerge(
    id: String,
    changed: @Sendable (Merge) -> Void = { _ in }
  ) async throws(ClientError) -> Merge {
    var pause = Backoff()
    var last: Merge?
    while true {
      let start = ContinuousClock.now
      let failure: CallFailure
      do throws(ClientError) {
        let latest = try await watchOnce(id, changed)
        if let latest, latest.isFinished { return latest }
        // The stream ended before the merge did: a server that drains, or one that limits how long a watch lasts.
        pause.watched(news: latest != nil && latest != last, since: start)
        last = latest ?? last
        failure = CallFailure(RPCError(.unavailable, "the service ends the watch, but the merge has not ended"))
      } catch {
        guard case .call(let call) = error, call.isRetryable else { throw error }
        pause.watched(news: false, since: start)
        failure = call
      }
      guard let next = pause.next(atLeast: failure.retryAfter) else { throw .call(failure) }
      try await sleep(next)
    }
  }

  private func watchOnce(
    _ id: String,
    _ changed: @Sendable (Merge) -> Void
  ) async throws(ClientError) -> Merge? {
    let service = MigrationV1.MigrationServiceClient(channel: migrator)
    let request = MigrationV1.WatchMigrationRequest(migrationID: id)
    let last = try await authorized(timeout: Limits.watchTimeout) { options throws(RPCError) in
      try await service.watchMigration(request, options: options) { responses throws(RPCError) in
        var last: MigrationV1.Migration?
        for try await response in responses {
          guard let migration = response.migration else { continue }
          last = migration
          if let merge = try? Merge(migration) { changed(merge) }
        }
        return last
      }
    }
    return try last.map { proto throws(ClientError) in try Merge(proto) }
  }
}
