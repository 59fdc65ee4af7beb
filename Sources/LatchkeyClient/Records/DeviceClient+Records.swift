import GRPC
import LatchkeyModel
import LatchkeyProtos

extension DeviceClient {
  /// Stores rows, replacing any of the same collection and key, and returns how many are durable.
  ///
  /// Rows travel in batches, each one transaction: after an error, the batches that were acknowledged are stored, and
  /// repeating the whole call is safe.
  public func putRecords(_ records: [Record]) async throws(ClientError) -> Int64 {
    guard !records.isEmpty else { return 0 }
    let service = MigrationV1.RecordServiceClient(channel: migrator)
    let batches = Self.batches(of: records)
    let answer = try await authorized(timeout: Limits.uploadTimeout) { options throws(RPCError) in
      try await service.putRecords(options: options) { requests throws(RPCError) in
        for batch in batches { try await requests.write(batch) }
      }
    }
    return answer.written
  }

  public func record(collection: String, key: String) async throws(ClientError) -> Record {
    let service = MigrationV1.RecordServiceClient(channel: migrator)
    let request = MigrationV1.GetRecordRequest(collection: collection, key: key)
    let answer = try await authorized { options throws(RPCError) in
      try await service.getRecord(request, options: options)
    }
    return Record(try require(answer.record, "GetRecordResponse.record"))
  }

  /// A page of a collection, newest first. `after` is the last page's ``RecordPage/next``.
  public func records(
    collection: String,
    pageSize: Int = 100,
    after: String? = nil
  ) async throws(ClientError) -> RecordPage {
    let service = MigrationV1.RecordServiceClient(channel: migrator)
    let request = MigrationV1.ListRecordsRequest(
      collection: collection,
      pageSize: Int32(clamping: pageSize),
      pageToken: after ?? ""
    )
    let answer = try await authorized { options throws(RPCError) in
      try await service.listRecords(request, options: options)
    }
    return RecordPage(
      records: answer.records.map { Record($0) },
      next: answer.nextPageToken.isEmpty ? nil : answer.nextPageToken
    )
  }

  /// True when there was such a row. With `expectedRevision`, only a row that nobody changed since is deleted.
  public func deleteRecord(
    collection: String,
    key: String,
    expectedRevision: Int64 = 0
  ) async throws(ClientError) -> Bool {
    let service = MigrationV1.RecordServiceClient(channel: migrator)
    let request = MigrationV1.DeleteRecordRequest(
      collection: collection,
      key: key,
      expectedRevision: expectedRevision
    )
    let answer = try await authorized { options throws(RPCError) in
      try await service.deleteRecord(request, options: options)
    }
    return answer.deleted
  }

  public func recordCollections() async throws(ClientError) -> [RecordCollection] {
    let service = MigrationV1.RecordServiceClient(channel: migrator)
    let answer = try await authorized { options throws(RPCError) in
      try await service.listCollections(MigrationV1.ListCollectionsRequest(), options: options)
    }
    return answer.collections.map { collection in
      RecordCollection(name: collection.name, count: collection.count, policy: MergePolicy(collection.policy))
    }
  }

  /// Messages small enough for the service, in order.
  static func batches(of records: [Record]) -> [MigrationV1.PutRecordsRequest] {
    var batches: [MigrationV1.PutRecordsRequest] = []
    var batch: [MigrationV1.Record] = []
    var bytes = 0
    for record in records {
      let size = record.value.count + record.key.utf8.count + record.collection.utf8.count
      if !batch.isEmpty, batch.count == Limits.recordsPerMessage || bytes + size > Limits.recordBytesPerMessage {
        batches.append(MigrationV1.PutRecordsRequest(records: batch))
        batch = []
        bytes = 0
      }
      batch.append(MigrationV1.Record(record))
      bytes += size
    }
    if !batch.isEmpty { batches.append(MigrationV1.PutRecordsRequest(records: batch)) }
    return batches
  }
}

extension Record {
  init(_ proto: MigrationV1.Record) {
    self.init(
      collection: proto.collection,
      key: proto.key,
      value: proto.value,
      number: proto.number,
      updatedAt: proto.updatedAt?.millisecondsSinceEpoch ?? 0,
      revision: proto.revision
    )
  }
}

extension MigrationV1.Record {
  /// Without the revision, which the service sets.
  init(_ record: Record) {
    self.init(
      collection: record.collection,
      key: record.key,
      value: record.value,
      number: record.number,
      updatedAt: GoogleProtobuf.Timestamp(millisecondsSinceEpoch: record.updatedAt)
    )
  }
}
