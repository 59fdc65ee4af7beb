/// Why a transfer brought nothing.
package struct TransferError: Error, Sendable, Equatable, CustomStringConvertible {
  package enum Fault: Sendable, Equatable {
    /// The server was not reached, not trusted or let nobody in: whatever is sent there meets the same.
    case server
    /// The server was there, and did not take this.
    case content
  }

  /// For an operator's log: names no secret.
  package let description: String
  /// Whether the same may succeed a moment later.
  package let isRetryable: Bool
  package let fault: Fault

  package init(_ description: String, isRetryable: Bool, fault: Fault = .server) {
    self.description = description
    self.isRetryable = isRetryable
    self.fault = fault
  }
}
