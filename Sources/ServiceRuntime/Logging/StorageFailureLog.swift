package import LatchkeyModel
package import Logging
package import Storage

/// Says in the log why a store failed: a line a second at most, for every call may fail at once.
///
/// What is no failure of the store is left out: a caller that went away, and work beyond what the store takes on.
package final class StorageFailureLog: Sendable {
  private let logger: Logger
  private let budget = LogBudget(linesPerSecond: 1)

  package init(_ logger: Logger) {
    self.logger = logger
  }

  package func note(_ error: StorageError, at now: Timestamp) {
    switch error.fault {
    case .cancelled, .overloaded, .superseded: return
    case .constraint, .closed, .unavailable, .outcomeUnknown, .full, .corrupt, .newerSchema, .olderSchema,
      .oldInstances, .forbidden, .otherCell, .misuse:
      break
    }
    guard let suppressed = budget.take(second: now.secondsSinceEpoch) else { return }
    var fields: Logger.Metadata = ["cause": "\(error)"]
    if suppressed > 0 { fields["suppressed_lines"] = "\(suppressed)" }
    logger.error("storage failed", metadata: fields)
  }
}
