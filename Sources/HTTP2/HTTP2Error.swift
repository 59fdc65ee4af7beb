/// Why a session could not do what it was asked.
package enum HTTP2Error: Error, Sendable, Equatable {
  /// libnghttp2 refused the operation: our mistake, or no memory.
  case refused(operation: StaticString, code: Int32)
  /// No new request may start here: GOAWAY was seen or the stream ids are used up. Retryable on a new connection.
  case draining

  package static func == (left: HTTP2Error, right: HTTP2Error) -> Bool {
    switch (left, right) {
    case (.refused(_, let left), .refused(_, let right)): return left == right
    case (.draining, .draining): return true
    default: return false
    }
  }
}
