extension StatusCode {
  /// What an HTTP status means where no `grpc-status` came, such as from a proxy.
  ///
  /// Source: gRPC "HTTP to gRPC Status Code Mapping".
  package init(httpStatus: Int) {
    switch httpStatus {
    case 400: self = .internal
    case 401: self = .unauthenticated
    case 403: self = .permissionDenied
    case 404: self = .unimplemented
    case 429, 502, 503, 504: self = .unavailable
    default: self = .unknown
    }
  }

  /// What a stream reset with an HTTP/2 error code means.
  ///
  /// Source: gRPC over HTTP/2, "Errors"; the codes are those of RFC 9113 §7.
  package init(http2ErrorCode: UInt32) {
    switch http2ErrorCode {
    case 0x7: self = .unavailable  // REFUSED_STREAM
    case 0x8: self = .cancelled  // CANCEL
    case 0xb: self = .resourceExhausted  // ENHANCE_YOUR_CALM
    case 0xc: self = .permissionDenied  // INADEQUATE_SECURITY
    default: self = .internal
    }
  }
}
