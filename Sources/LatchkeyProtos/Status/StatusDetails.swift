package import GRPC
internal import NIOCore

/// The machine-readable part of an error as stock gRPC clients read it: a `google.rpc.Status` in the trailer
/// `grpc-status-details-bin`.
package enum StatusDetails {
  /// The trailer's name.
  package static let metadataName = "grpc-status-details-bin"

  /// Who gives the reasons: `google.rpc.ErrorInfo.domain`.
  package static let domain = "latchkey"

  /// The trailer's bytes; nil when the error has no details.
  package static func encode(_ error: RPCError) -> [UInt8]? {
    guard !error.details.isEmpty else { return nil }
    do throws(RPCError) {
      return try bytes(of: status(for: error))
    } catch {
      // Only details beyond what a message may hold: the code and the message still reach the client.
      return nil
    }
  }

  /// What a trailer's bytes say; nil when they are no `google.rpc.Status`. Details of other types are passed over.
  package static func decode(_ bytes: [UInt8]) -> RPCError.Details? {
    guard let status: GoogleRPC.Status = message(bytes) else { return nil }
    var details = RPCError.Details()
    for any in status.details {
      switch any.typeURL {
      case url("ErrorInfo"):
        guard let info: GoogleRPC.ErrorInfo = message(any.value) else { continue }
        details.reason = info.reason.isEmpty ? nil : info.reason
        details.info = info.metadata.map { RPCError.KeyValue($0.key, $0.value) }
      case url("RetryInfo"):
        guard let info: GoogleRPC.RetryInfo = message(any.value) else { continue }
        details.retryAfter = info.retryDelay?.duration
      case url("BadRequest"):
        guard let request: GoogleRPC.BadRequest = message(any.value) else { continue }
        details.fieldViolations = request.fieldViolations.map {
          RPCError.FieldViolation(field: $0.field, description: $0.description)
        }
      default:
        continue
      }
    }
    return details
  }

  private static func status(for error: RPCError) throws(RPCError) -> GoogleRPC.Status {
    var details: [GoogleProtobuf.`Any`] = []
    if error.details.reason != nil || !error.details.info.isEmpty {
      let info = GoogleRPC.ErrorInfo(
        reason: error.details.reason ?? "",
        domain: domain,
        metadata: error.details.info.map { GoogleRPC.ErrorInfo.MetadataEntry(key: $0.key, value: $0.value) }
      )
      details.append(GoogleProtobuf.`Any`(typeURL: url("ErrorInfo"), value: try bytes(of: info)))
    }
    if let delay = error.details.retryAfter {
      let info = GoogleRPC.RetryInfo(retryDelay: GoogleProtobuf.Duration(delay))
      details.append(GoogleProtobuf.`Any`(typeURL: url("RetryInfo"), value: try bytes(of: info)))
    }
    if !error.details.fieldViolations.isEmpty {
      let request = GoogleRPC.BadRequest(
        fieldViolations: error.details.fieldViolations.map {
          GoogleRPC.BadRequest.FieldViolation(field: $0.field, description: $0.description)
        })
      details.append(GoogleProtobuf.`Any`(typeURL: url("BadRequest"), value: try bytes(of: request)))
    }
    return GoogleRPC.Status(code: Int32(error.code.rawValue), message: error.message, details: details)
  }

  private static func url(_ name: String) -> String {
    "type.googleapis.com/google.rpc.\(name)"
  }

  private static func bytes(of message: some RPCMessage) throws(RPCError) -> [UInt8] {
    var buffer = ByteBuffer()
    try message.encode(into: &buffer)
    return Array(buffer.readableBytesView)
  }

  private static func message<Message: RPCMessage>(_ bytes: [UInt8]) -> Message? {
    try? Message(decoding: ByteBuffer(bytes: bytes))
  }
}
