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
}
