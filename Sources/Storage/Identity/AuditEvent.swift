/// A security event on record.
package struct AuditEvent: Sendable, Equatable {
  /// 1 for the first, then without a gap.
  package var sequence: Int64
  package var note: AuditNote
  /// Holds for this event and all before it.
  package var link: [UInt8]

  package init(sequence: Int64, note: AuditNote, link: [UInt8]) {
    self.sequence = sequence
    self.note = note
    self.link = link
  }
}
