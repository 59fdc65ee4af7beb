import GRPC
import LatchkeyProtos

extension DeviceClient {
  /// Merges into this account, newest first, without their reports. `after` is what the page before returned as `next`;
  /// nil is returned with the last page.
  public func merges(
    pageSize: Int = 100,
    after: String? = nil
  ) async throws(ClientError) -> (merges: [Merge], next: String?) {
    let service = MigrationV1.MigrationServiceClient(channel: migrator)
    let request = MigrationV1.ListMigrationsRequest(pageSize: Int32(clamping: pageSize), pageToken: after ?? "")
    let answer = try await authorized { options throws(RPCError) in
      try await service.listMigrations(request, options: options)
    }
    var merges: [Merge] = []
    for migration in answer.migrations { merges.append(try Merge(migration)) }
    return (merges, answer.nextPageToken.isEmpty ? nil : answer.nextPageToken)
  }

  /// Begins to take back a merge that is done, until its ``Merge/undoUntil``; follow it with `watchMerge`. False when it
  /// was taken back before.
  public func undoMerge(id: String) async throws(ClientError) -> Bool {
    let service = MigrationV1.MigrationServiceClient(channel: migrator)
    return try await authorized { options throws(RPCError) in
      try await service.undoMigration(MigrationV1.UndoMigrationRequest(migrationID: id), options: options)
    }.begun
  }

  /// The guest's rows that a merge set aside and nobody has decided about, in the order of their names. Pages as in
  /// `merges`.
  public func conflicts(
    ofMerge id: String,
    pageSize: Int = 100,
    after: String? = nil
  ) async throws(ClientError) -> (conflicts: [MergeConflict], next: String?) {
    let service = MigrationV1.MigrationServiceClient(channel: migrator)
    let request = MigrationV1.ListConflictsRequest(
      migrationID: id, pageSize: Int32(clamping: pageSize), pageToken: after ?? "")
    let answer = try await authorized { options throws(RPCError) in
      try await service.listConflicts(request, options: options)
    }
    var conflicts: [MergeConflict] = []
    for conflict in answer.conflicts { conflicts.append(try MergeConflict(conflict)) }
    return (conflicts, answer.nextPageToken.isEmpty ? nil : answer.nextPageToken)
  }

  /// Decides about such a row: ``MergePolicy/keepTarget`` drops the guest's. With `expectedRevision`, only while the
  /// account's row has it. False when somebody has decided before.
  public func resolveConflict(
    ofMerge id: String,
    collection: String,
    key: String,
    by policy: MergePolicy,
    expectedRevision: Int64 = 0
  ) async throws(ClientError) -> Bool {
    let service = MigrationV1.MigrationServiceClient(channel: migrator)
    let request = MigrationV1.ResolveConflictRequest(
      migrationID: id, collection: collection, key: key, policy: policy.proto, expectedRevision: expectedRevision)
    return try await authorized { options throws(RPCError) in
      try await service.resolveConflict(request, options: options)
    }.resolved
  }
}
