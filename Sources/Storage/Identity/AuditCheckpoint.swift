/// Where the audit log begins, after its oldest events were forgotten.
package struct AuditCheckpoint: Sendable, Equatable {
  /// Of the last event that was forgotten.
  package var sequence: Int64
  package var link: [UInt8]
  /// Made with the key of the chain, so that nobody else can move the beginning.
  package var seal: [UInt8]

  package init(sequence: Int64, link: [UInt8], seal: [UInt8]) {
    self.sequence = sequence
    self.link = link
    self.seal = seal
  }
}
