/// Why a transfer brought nothing.
package struct TransferError: Error, Sendable, Equatable, CustomStringConvertible {
  /// For an operator's log: names no secret.
  package let description: String
  /// Whether the same may succeed a moment later.
  package let isRetryable: Bool

  package init(_ description: String, isRetryable: Bool) {
    self.description = description
    self.isRetryable = isRetryable
  }
}
