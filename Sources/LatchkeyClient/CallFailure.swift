import GRPC

/// What a service, or the way to it, said about a call that failed.
public struct CallFailure: Error, Sendable, Equatable {
  /// The gRPC status code's name, such as `NOT_FOUND`.
  public let code: String
  /// For the developer; show people your own words, chosen by `code` and `reason`.
  public let message: String
  /// The machine-readable reason, such as `slow_down` or `IDENTITY_IN_USE`.
  public let reason: String?
  /// What belongs to the reason, such as the link ticket of `IDENTITY_IN_USE`.
  public let info: [String: String]
  /// The request's fields at fault, by path.
  public let fields: [Field]
  /// When the service wants to be asked again.
  public let retryAfter: Duration?
  /// The service could not be reached or was too slow: the same call may succeed later.
  public let isRetryable: Bool

  public struct Field: Sendable, Equatable {
    public let path: String
    public let problem: String
  }
}

extension CallFailure {
  package init(_ error: RPCError) {
    code = error.code.name
    message = error.message
    reason = error.details.reason
    info = Dictionary(error.details.info.map { ($0.key, $0.value) }, uniquingKeysWith: { first, _ in first })
    fields = error.details.fieldViolations.map { Field(path: $0.field, problem: $0.description) }
    retryAfter = error.details.retryAfter
    isRetryable =
      switch error.code {
      case .unavailable, .deadlineExceeded, .aborted: true
      case .resourceExhausted: error.details.retryAfter != nil
      default: false
      }
  }
}

extension StatusCode {
  /// The name that gRPC's documents use.
  package var name: String {
    switch self {
    case .ok: "OK"
    case .cancelled: "CANCELLED"
    case .unknown: "UNKNOWN"
    case .invalidArgument: "INVALID_ARGUMENT"
    case .deadlineExceeded: "DEADLINE_EXCEEDED"
    case .notFound: "NOT_FOUND"
    case .alreadyExists: "ALREADY_EXISTS"
    case .permissionDenied: "PERMISSION_DENIED"
    case .resourceExhausted: "RESOURCE_EXHAUSTED"
    case .failedPrecondition: "FAILED_PRECONDITION"
    case .aborted: "ABORTED"
    case .outOfRange: "OUT_OF_RANGE"
    case .unimplemented: "UNIMPLEMENTED"
    case .internal: "INTERNAL"
    case .unavailable: "UNAVAILABLE"
    case .dataLoss: "DATA_LOSS"
    case .unauthenticated: "UNAUTHENTICATED"
    }
  }
}
