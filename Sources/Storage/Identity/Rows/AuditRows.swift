import LatchkeyModel

/// Security events, by their chains and their numbers in them. An engine has one chain, or as many as it appends to at
/// once.
package protocol AuditRows {
  /// Where a chain ends that the operation may append to: at its last event, at what is kept of one that was forgotten, or
  /// where it begins. Until the operation has appended to that chain, or ends, no other one does: it appends at once.
  func lockEnd() async throws(StorageError) -> AuditEnd

  /// Appends events to their chain, in their order, and gives them their places in the log.
  func insert(_ events: [AuditEvent]) async throws(StorageError)

  /// At most `limit` of those after a place in the log, in their order; of one subject when one is named.
  func events(after sequence: Int64, of subject: SubjectID?, limit: Int) async throws(StorageError) -> [AuditEvent]

  /// At most `limit` of those of a chain after a number, in their order.
  func events(of chain: Int64, after number: Int64, limit: Int) async throws(StorageError) -> [AuditEvent]

  /// Where each chain ends that has events or a checkpoint, in the order of the chains. Cost: reads a row of each.
  func ends() async throws(StorageError) -> [AuditEnd]

  /// The last events of the chains that have some after a place in the log, or among the last thousands when none is named,
  /// seals left aside. Where one chain alone is appended to that one is not among them: no other can seal its end.
  func unsealed(after sequence: Int64?) async throws(StorageError) -> [AuditEvent]

  /// How many of a kind there are. Cost: reads all.
  func count(of kind: AuditNote.Kind) async throws(StorageError) -> Int

  /// All of a chain up to a number.
  func remove(of chain: Int64, through number: Int64) async throws(StorageError)

  /// Where the chains begin of which something was forgotten.
  func checkpoints() async throws(StorageError) -> [AuditCheckpoint]

  func checkpoint(of chain: Int64) async throws(StorageError) -> AuditCheckpoint?

  /// Stores where a chain begins, in the place of an earlier beginning.
  func put(_ checkpoint: AuditCheckpoint, at now: Timestamp) async throws(StorageError)

  /// Those from before a time of chains that have no event, where there are several chains.
  func removeCheckpoints(before time: Timestamp) async throws(StorageError)
}

extension AuditChain {
  /// Appends to a chain, inside the transaction of what the events tell about.
  package func append(_ notes: [AuditNote], to rows: some AuditRows) async throws(StorageError) {
    guard !notes.isEmpty else { return }
    var end = try await rows.lockEnd()
    var events: [AuditEvent] = []
    for note in notes {
      end = AuditEnd(chain: end.chain, number: end.number + 1, link: link(after: end, note))
      events.append(
        AuditEvent(sequence: end.number, chain: end.chain, number: end.number, note: note, link: end.link))
    }
    try await rows.insert(events)
  }
}
