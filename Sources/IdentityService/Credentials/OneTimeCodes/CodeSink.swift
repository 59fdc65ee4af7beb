import Storage

/// Takes one-time codes to people: the port behind which e-mail, text messages and whatever a deployment has are.
package protocol CodeSink: Sendable {
  /// Returns when the next station has the message. May take its time: nobody waits for it.
  func deliver(_ message: CodeMessage) async throws(CodeDeliveryError)
  func deliver(_ notice: OwnerNotice) async throws(CodeDeliveryError)
}

/// Why a message was not taken on: for the operator's log, without the code.
package struct CodeDeliveryError: Error, Sendable, CustomStringConvertible {
  package let description: String
  /// Whether others' messages meet the same, rather than this one alone.
  package let isChannelWide: Bool

  package init(_ description: String, isChannelWide: Bool = false) {
    self.description = description
    self.isChannelWide = isChannelWide
  }
}
