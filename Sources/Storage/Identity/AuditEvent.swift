/// A security event on record.
package struct AuditEvent: Sendable, Equatable {
  /// Its place in the log, higher than those of the events before it in its chain. Where there is one chain, its number,
  /// unless the log was brought from a database with several.
  package var sequence: Int64
  /// The chain that it is in: 0 where there is one.
  package var chain: Int64
  /// In its chain: 1 for the first, then without a gap.
  package var number: Int64
  package var note: AuditNote
  /// Holds for this event and all before it in its chain.
  package var link: [UInt8]

  package init(sequence: Int64, chain: Int64 = 0, number: Int64? = nil, note: AuditNote, link: [UInt8]) {
    self.sequence = sequence
    self.chain = chain
    self.number = number ?? sequence
    self.note = note
    self.link = link
  }
}

/// Where a chain ends.
package struct AuditEnd: Sendable, Hashable {
  package var chain: Int64
  /// Of the last event; 0 when there is none.
  package var number: Int64
  package var link: [UInt8]

  package init(chain: Int64 = 0, number: Int64 = 0, link: [UInt8] = AuditChain.origin) {
    self.chain = chain
    self.number = number
    self.link = link
  }

  package init(_ event: AuditEvent) {
    self.init(chain: event.chain, number: event.number, link: event.link)
  }
}
