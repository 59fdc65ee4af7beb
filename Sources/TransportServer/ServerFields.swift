internal import GRPC
internal import HTTP2

/// The fields that every answer shares.
enum ServerFields {
  static let common: HTTP2CommonAnswer = {
    var head = HTTP2FieldList()
    head.add(":status", "200")
    head.add("content-type", "application/grpc")
    var trailers = HTTP2FieldList()
    trailers.add("grpc-status", "0")
    return HTTP2CommonAnswer(head: head, trailers: trailers)
  }()

  /// Common answers for connections to choose among, each with another refusal.
  static func commonAnswers(refusing errors: [RPCError], _ encode: RPCServer.StatusDetailsEncoder)
    -> [HTTP2CommonAnswer]
  {
    errors.map { error in
      var answer = common
      answer.refusal = common.head
      add(error, encode, to: &answer.refusal)
      return answer
    }
  }

  /// Adds what says how a call failed.
  static func add(_ error: RPCError, _ encode: RPCServer.StatusDetailsEncoder, to fields: inout HTTP2FieldList) {
    fields.add("grpc-status", String(error.code.rawValue))
    if !error.message.isEmpty { fields.add("grpc-message".utf8, PercentEncoding.encode(error.message)) }
    if let details = encode(error) { fields.add("grpc-status-details-bin".utf8, BinaryMetadata.encode(details)) }
    fields.add(error.metadata)
  }
}
