import Domain
import GRPC
import LatchkeyModel
import LatchkeyProtos
import Storage

extension RecordHandlers {
  /// Writes the records of each message in one transaction, in the order of the messages. When the call fails, the
  /// messages before the one at fault are stored; writing a record again is harmless.
  package func putRecords(
    _ requests: RequestStream<MigrationV1.PutRecordsRequest>,
    context: ServerContext
  ) async throws(RPCError) -> MigrationV1.PutRecordsResponse {
    let caller = try context.requireSubject()
    let subject = try caller.id
    let bounds = caller.isGuest ? core.guestBounds : core.accountBounds
    var written: Int64 = 0
    var messages = requests.makeAsyncIterator()
    while let request = try await messages.next() {
      try core.tokens.checkSession(of: caller)
      guard request.records.count <= Limits.recordsPerMessage else {
        throw .invalid("records", "must be at most \(Limits.recordsPerMessage) in one message")
      }
      let now = core.clock.now()
      var drafts: [RecordDraft] = []
      drafts.reserveCapacity(request.records.count)
      for (index, record) in request.records.enumerated() {
        drafts.append(try RequestFields.draft(record, "records[\(index)]", now: now))
      }
      let outcome = try await core.perform(PutRecords(drafts, of: subject, within: bounds))
      written += Int64(try outcome.value)
    }
    return MigrationV1.PutRecordsResponse(written: written)
  }
}
