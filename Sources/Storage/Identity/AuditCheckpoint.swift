/// Where a chain of the audit log begins, after its oldest events were forgotten.
package struct AuditCheckpoint: Sendable, Equatable {
  package var chain: Int64
  /// Of the last event that was forgotten: its number in the chain.
  package var number: Int64
  package var link: [UInt8]
  /// Made with the key of the chain, so that nobody else can move the beginning.
  package var seal: [UInt8]

  package init(chain: Int64 = 0, number: Int64, link: [UInt8], seal: [UInt8]) {
    self.chain = chain
    self.number = number
    self.link = link
    self.seal = seal
  }

  package var end: AuditEnd { AuditEnd(chain: chain, number: number, link: link) }
}
