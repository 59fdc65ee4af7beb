/// Security events, by their numbers.
package protocol AuditRows {
  /// The end of the chain: the last event, or what is kept of one that was forgotten.
  /// Until the operation ends no other one appends.
  func lockLast() async throws(StorageError) -> (sequence: Int64, link: [UInt8])?

  func insert(_ event: AuditEvent) async throws(StorageError)
}

extension AuditChain {
  /// Appends to the chain, inside the transaction of what the events tell about.
  package func append(_ notes: [AuditNote], to rows: some AuditRows) async throws(StorageError) {
    guard !notes.isEmpty else { return }
    var (sequence, link) = try await rows.lockLast() ?? (0, Self.origin)
    for note in notes {
      sequence += 1
      link = self.link(after: link, sequence: sequence, note)
      try await rows.insert(AuditEvent(sequence: sequence, note: note, link: link))
    }
  }
}
