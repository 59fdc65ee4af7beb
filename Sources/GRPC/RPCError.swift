/// How a call ended when it did not end well: what the client sees, and only that.
///
/// The cause is logged at the boundary; it never travels. `details` become a `google.rpc.Status` in
/// `grpc-status-details-bin`.
package struct RPCError: Error, Sendable, Equatable {
  package var code: StatusCode
  /// A sentence for the developer of the client.
  package var message: String
  package var details: Details
  /// Metadata for the trailers, such as the pushback of an overloaded server.
  package var metadata: Metadata

  /// The machine-readable part of an error.
  package struct Details: Sendable, Equatable {
    /// `google.rpc.ErrorInfo.reason`, such as `slow_down` or `TOKEN_EXPIRED`.
    package var reason: String?
    /// `google.rpc.ErrorInfo.metadata`.
    package var info: [KeyValue] = []
    /// `google.rpc.RetryInfo`.
    package var retryAfter: Duration?
    /// `google.rpc.BadRequest`.
    package var fieldViolations: [FieldViolation] = []

    package init(
      reason: String? = nil,
      info: [KeyValue] = [],
      retryAfter: Duration? = nil,
      fieldViolations: [FieldViolation] = []
    ) {
      self.reason = reason
      self.info = info
      self.retryAfter = retryAfter
      self.fieldViolations = fieldViolations
    }

    package var isEmpty: Bool {
      reason == nil && info.isEmpty && retryAfter == nil && fieldViolations.isEmpty
    }
  }

  package struct KeyValue: Sendable, Equatable {
    package var key: String
    package var value: String

    package init(_ key: String, _ value: String) {
      self.key = key
      self.value = value
    }
  }

  package struct FieldViolation: Sendable, Equatable {
    /// The field's path in the request, such as `device.public_key.x`.
    package var field: String
    package var description: String

    package init(field: String, description: String) {
      self.field = field
      self.description = description
    }
  }

  package init(
    _ code: StatusCode,
    _ message: String,
    reason: String? = nil,
    info: [KeyValue] = [],
    retryAfter: Duration? = nil,
    metadata: Metadata = Metadata()
  ) {
    self.code = code
    self.message = message
    self.details = Details(reason: reason, info: info, retryAfter: retryAfter)
    self.metadata = metadata
  }

  /// `INVALID_ARGUMENT` that names the field at fault.
  package static func invalid(_ field: String, _ description: String) -> RPCError {
    var error = RPCError(.invalidArgument, "\(field): \(description)")
    error.details.fieldViolations = [FieldViolation(field: field, description: description)]
    return error
  }
}
