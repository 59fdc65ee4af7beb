import LatchkeyModel
import Storage

/// Records events that belong to no other change, as one.
package struct RecordEvents: IdentityCommand {
  package static let name = "record events"

  package var notes: [AuditNote]

  package init(_ notes: [AuditNote]) {
    self.notes = notes
  }

  package func decide(
    in rows: some IdentityTransaction, noting changes: inout SessionChanges
  ) async throws(StorageError) {
    changes.notes += notes
  }
}

/// Forgets at most `limit` of the oldest events that are older than a time, and seals where their chains go on. Says how
/// many. The last event of the log stays until there is another one: from its place the log goes on, so that whoever has
/// read that far finds what comes next.
package struct TrimAuditLog: IdentityCommand {
  package static let name = "trim the audit log"

  package var time: Timestamp
  package var limit: Int
  package var now: Timestamp
  package var chain: AuditChain

  package init(before time: Timestamp, limit: Int, at now: Timestamp, _ chain: AuditChain) {
    self.time = time
    self.limit = limit
    self.now = now
    self.chain = chain
  }

  package func decide(
    in rows: some IdentityTransaction, noting changes: inout SessionChanges
  ) async throws(StorageError) -> Int {
    // Only a run of them from the beginning, so that the rest of each chain is still one: an old event behind a newer one,
    // which a clock that was set back makes, waits for that one.
    let events = try await rows.audit.events(after: 0, of: nil, limit: limit + 1)
    let oldest = events.dropLast().prefix { $0.note.at < time }
    var ends: [Int64: AuditEnd] = [:]
    for event in oldest { ends[event.chain] = AuditEnd(event) }
    for end in ends.values.sorted(by: { $0.chain < $1.chain }) {
      try await rows.audit.remove(of: end.chain, through: end.number)
      try await rows.audit.put(
        AuditCheckpoint(chain: end.chain, number: end.number, link: end.link, seal: chain.seal(end)), at: now)
    }
    return oldest.count
  }
}

/// Forgets where chains began of which nothing is left, nor any event that speaks of them: everything that was there when
/// their last events were forgotten has been forgotten since.
package struct ForgetChains: IdentityCommand {
  package static let name = "forget chains of the audit log"

  package var time: Timestamp

  package init(before time: Timestamp) {
    self.time = time
  }

  package func decide(
    in rows: some IdentityTransaction, noting changes: inout SessionChanges
  ) async throws(StorageError) {
    try await rows.audit.removeCheckpoints(before: time)
  }
}

/// Records where the chains end that went on after a place in the log, in a chain that is its own: so the end of none can
/// be cut off without a trace in the others. Says what it recorded, and the last place that it saw.
package struct SealChains: IdentityCommand {
  package static let name = "seal the audit log"

  package struct Outcome: Sendable, Equatable {
    package var ends: [AuditEnd]
    package var last: Int64?
  }

  package var sequence: Int64?
  /// What was recorded before, by chain.
  package var sealed: [Int64: Int64]
  package var now: Timestamp

  package init(after sequence: Int64?, except sealed: [Int64: Int64], at now: Timestamp) {
    self.sequence = sequence
    self.sealed = sealed
    self.now = now
  }

  /// Of one event, some 100 bytes each.
  private static let endsPerEvent = 40

  package func decide(
    in rows: some IdentityTransaction, noting changes: inout SessionChanges
  ) async throws(StorageError) -> Outcome {
    let events = try await rows.audit.unsealed(after: sequence)
    let ends = events.filter { $0.number > sealed[$0.chain] ?? 0 }.map { AuditEnd($0) }
    for start in stride(from: 0, to: ends.count, by: Self.endsPerEvent) {
      let part = ends[start..<min(start + Self.endsPerEvent, ends.count)]
      changes.notes.append(AuditNote(.logSealed, at: now, detail: AuditSeal(Array(part)).text))
    }
    return Outcome(ends: ends, last: events.map(\.sequence).max())
  }
}

/// From where the chains go on of which something was forgotten.
package struct FindCheckpoints: IdentityOperation {
  package static let name = "find the audit log's checkpoints"

  package init() {}

  package func run(in rows: some IdentityTransaction) async throws(StorageError) -> [AuditCheckpoint] {
    try await rows.audit.checkpoints()
  }
}

/// The same for one chain; nil while nothing of it was forgotten.
package struct FindCheckpoint: IdentityOperation {
  package static let name = "find a checkpoint of the audit log"

  package var chain: Int64

  package init(of chain: Int64 = 0) {
    self.chain = chain
  }

  package func run(in rows: some IdentityTransaction) async throws(StorageError) -> AuditCheckpoint? {
    try await rows.audit.checkpoint(of: chain)
  }
}

/// Where the chains end.
package struct FindChainEnds: IdentityOperation {
  package static let name = "find the ends of the audit log"

  package init() {}

  package func run(in rows: some IdentityTransaction) async throws(StorageError) -> [AuditEnd] {
    try await rows.audit.ends()
  }
}

/// Events of a chain after a number, oldest first.
package struct ListChain: IdentityOperation {
  package static let name = "list a chain of the audit log"

  package var chain: Int64
  package var number: Int64
  package var limit: Int

  package init(_ chain: Int64, after number: Int64, limit: Int) {
    self.chain = chain
    self.number = number
    self.limit = limit
  }

  package func run(in rows: some IdentityTransaction) async throws(StorageError) -> [AuditEvent] {
    try await rows.audit.events(of: chain, after: number, limit: limit)
  }
}

/// How many events of a kind there are. Cost: reads all events, so it is asked by upkeep and by no call.
package struct CountEvents: IdentityOperation {
  package static let name = "count events"

  package var kind: AuditNote.Kind

  package init(of kind: AuditNote.Kind) {
    self.kind = kind
  }

  package func run(in rows: some IdentityTransaction) async throws(StorageError) -> Int {
    try await rows.audit.count(of: kind)
  }
}

/// Events after a sequence number, oldest first; of one subject when one is named.
package struct ListEvents: IdentityOperation {
  package static let name = "list events"

  package var sequence: Int64
  package var subject: SubjectID?
  package var limit: Int

  package init(after sequence: Int64, of subject: SubjectID? = nil, limit: Int) {
    self.sequence = sequence
    self.subject = subject
    self.limit = limit
  }

  package func run(in rows: some IdentityTransaction) async throws(StorageError) -> [AuditEvent] {
    try await rows.audit.events(after: sequence, of: subject, limit: limit)
  }
}
