package import GRPC
package import LatchkeyModel
package import Logging

/// Logs calls that were refused or failed (R42): who, when, from where, which method, how it ended.
///
/// Calls that went well are logged at debug level only: their audit is the business of the service that did something.
package struct CallLogInterceptor: ServerInterceptor {
  private let logger: Logger
  private let clock: any WallClock
  private let budget = LogBudget(linesPerSecond: Limits.callLogLinesPerSecond)

  package init(logger: Logger, clock: any WallClock = SystemClock()) {
    self.logger = logger
    self.clock = clock
  }

  package func directCalls(_ context: ServerContext) -> DirectCallVerdict {
    Self.level(.ok) >= logger.logLevel ? .look : .pass()
  }

  package func didFinish(_ context: ServerContext, status: StatusCode, duration: Duration) {
    let level = Self.level(status)
    guard level >= logger.logLevel, let suppressed = budget.take(second: clock.now().secondsSinceEpoch) else { return }
    var fields: Logger.Metadata = [
      "method": "\(context.method.path)",
      "status": "\(status)",
      "peer": "\(context.peer.address)",
      "duration_ms": "\(duration.wholeMilliseconds)",
    ]
    switch context.caller {
    case .anonymous: break
    case .subject(let subject):
      fields["sub"] = "\(subject.subject)"
      fields["sid"] = "\(subject.sessionID)"
    case .service: fields["caller"] = "service"
    }
    if suppressed > 0 { fields["suppressed_lines"] = "\(suppressed)" }
    logger.log(level: level, "call ended", metadata: fields)
  }

  private static func level(_ status: StatusCode) -> Logger.Level {
    switch status {
    case .ok, .cancelled, .notFound, .alreadyExists, .failedPrecondition, .aborted, .outOfRange: .debug
    case .invalidArgument, .resourceExhausted, .deadlineExceeded, .unimplemented: .debug
    case .unauthenticated, .permissionDenied: .info
    case .unavailable: .warning
    case .unknown, .internal, .dataLoss: .error
    }
  }
}
