/// How a gRPC-Web call writes its bodies. Source: gRPC-Web "Protocol differences vs gRPC over HTTP2".
package enum WebFormat: Sendable, Equatable {
  /// `application/grpc-web`, alone or with a codec: the bytes as they are.
  case binary
  /// `application/grpc-web-text`: base64, for browsers that hand over text only.
  case text

  /// The format that a content type names, or nil for one that is not gRPC-Web.
  package init?(contentType value: UnsafeRawBufferPointer) {
    // Read within the call only, in bounds by the counts.
    let essence = unsafe value.prefix { $0 != UInt8(ascii: ";") && $0 != UInt8(ascii: " ") }
    let bytes = unsafe UnsafeRawBufferPointer(rebasing: essence)
    if unsafe bytes.equals("application/grpc-web") || bytes.equals("application/grpc-web+proto") {
      self = .binary
    } else if unsafe bytes.equals("application/grpc-web-text") || bytes.equals("application/grpc-web-text+proto") {
      self = .text
    } else {
      return nil
    }
  }

  /// The content type of the answer.
  package var contentType: String {
    switch self {
    case .binary: "application/grpc-web+proto"
    case .text: "application/grpc-web-text+proto"
    }
  }
}
