#if canImport(Glibc)
  internal import Glibc
#else
  internal import Darwin
#endif

/// What the header block of a request says, gathered field by field.
///
///     receive(field)*  ──▶  verdict(router)  ──▶  call | refuse | unsupportedMediaType | page
///
/// Source: gRPC over HTTP/2, "Requests".
package struct RequestHead: Sendable {
  /// What the transport has to do with the request.
  package enum Verdict: Sendable {
    /// Run this route, within this time if the client named one.
    case call(RPCRoute, timeout: Duration?)
    /// It is gRPC, and answered with a status at once.
    case refuse(RPCError)
    /// Not gRPC: HTTP status 415, unless there is a page for it.
    case unsupportedMediaType
  }

  private enum ContentType {
    case missing
    case grpc
    case web(WebFormat)
    case other
  }

  private enum Timeout {
    case none
    case some(Duration)
    case malformed
  }

  /// Metadata: what is neither a pseudo-header field nor reserved for the protocol. Of a page's request also its content type.
  package private(set) var fields = FieldBlock()
  private var route: RPCRoute?
  private var isPost = false
  private var contentType = ContentType.missing
  private var timeout = Timeout.none
  /// How the client codes its messages; nil for a way that is not known here.
  private var coding: MessageCoding? = .identity
  /// What the client can expand.
  package private(set) var acceptedCoding = MessageCoding.identity
  private var hasMalformedBinary = false
  /// `:method` and `:path` of what may be a request for a page.
  package private(set) var httpMethod: [UInt8] = []
  package private(set) var httpPath: [UInt8] = []

  package init() {}

  /// Makes room at once for the fields of a large block.
  package mutating func reserve(_ byteCount: Int) { fields.reserve(byteCount) }

  /// Forgets the request, keeps the memory.
  package mutating func reset() {
    fields.removeAll()
    route = nil
    isPost = false
    contentType = .missing
    timeout = .none
    coding = .identity
    acceptedCoding = .identity
    hasMalformedBinary = false
    httpMethod.removeAll(keepingCapacity: true)
    httpPath.removeAll(keepingCapacity: true)
  }

  /// Takes one field, its name in lower case.
  package mutating func receive(_ name: UnsafeRawBufferPointer, _ value: UnsafeRawBufferPointer, _ router: Router) {
    // Every pointer here is read before the call returns.
    switch name.count {
    case 2 where unsafe name.equals("te"):
      return
    case 5 where unsafe name.equals(":path"):
      unsafe route = router[value]
      if route == nil { unsafe httpPath.append(contentsOf: value) }
    case 7 where unsafe name.equals(":method"):
      unsafe isPost = value.equals("POST")
      if !isPost { unsafe httpMethod.append(contentsOf: value) }
    case 7 where unsafe name.equals(":scheme"), 10 where unsafe name.equals(":authority"):
      return
    case 12 where unsafe name.equals("content-type"):
      unsafe contentType = Self.contentType(value)
      // Of a page's request, which comes here by HTTP/2, it says what the body is.
      if route == nil, case .other = contentType { unsafe fields.append(name, value) }
    case 12 where unsafe name.equals("grpc-timeout"):
      unsafe timeout = GRPCTimeout.parse(value).map(Timeout.some) ?? .malformed
    case 13 where unsafe name.equals("grpc-encoding"):
      unsafe coding = MessageCoding(field: value)
    case 20 where unsafe name.equals("grpc-accept-encoding"):
      unsafe acceptedCoding = MessageCoding(acceptedBy: value)
    case 0: return
    default:
      if unsafe name[0] == UInt8(ascii: ":") { return }
      if unsafe name.hasSuffix("-bin"), unsafe BinaryMetadata.decodeList(value) == nil {
        hasMalformedBinary = true
        return
      }
      unsafe fields.append(name, value)
    }
  }

  /// What the request's messages with the compressed flag are coded in.
  package var requestCoding: MessageCoding { coding ?? .identity }

  /// What to do, once the block is complete.
  package var verdict: Verdict {
    guard case .grpc = contentType, isPost else { return .unsupportedMediaType }
    return callVerdict
  }

  /// The format of a gRPC-Web call, which `verdict` knows nothing of; nil for anything else.
  package var webFormat: WebFormat? {
    guard case .web(let format) = contentType, isPost else { return nil }
    return format
  }

  /// What to do with a gRPC-Web call.
  package var webVerdict: Verdict {
    guard webFormat != nil else { return .unsupportedMediaType }
    return callVerdict
  }

  private var callVerdict: Verdict {
    guard let route else {
      let path = String(decoding: httpPath.prefix(256), as: UTF8.self)
      return .refuse(RPCError(.unimplemented, "no method \(path)"))
    }
    guard coding != nil else {
      let accepted: Metadata = ["grpc-accept-encoding": MessageCoding.accepted.description]
      return .refuse(RPCError(.unimplemented, "the message encoding is not supported", metadata: accepted))
    }
    guard !hasMalformedBinary else {
      return .refuse(RPCError(.internal, "a metadata value whose name ends in -bin is not base64"))
    }
    switch timeout {
    case .none: return .call(route, timeout: nil)
    case .some(let timeout): return .call(route, timeout: timeout)
    case .malformed: return .refuse(RPCError(.internal, "grpc-timeout is malformed"))
    }
  }

  /// `application/grpc`, alone or with a codec or parameters; gRPC-Web is another protocol.
  private static func contentType(_ value: UnsafeRawBufferPointer) -> ContentType {
    let plain: StaticString = "application/grpc"
    let count = plain.utf8CodeUnitCount
    guard value.count >= count else { return .other }
    // In bounds by the check above.
    guard unsafe UnsafeRawBufferPointer(rebasing: value[..<count]).equals(plain) else { return .other }
    guard value.count > count else { return .grpc }
    if unsafe value[count] == UInt8(ascii: "+") || value[count] == UInt8(ascii: ";") { return .grpc }
    return unsafe WebFormat(contentType: value).map(ContentType.web) ?? .other
  }
}

extension UnsafeRawBufferPointer {
  /// Whether the bytes are those of `other`.
  func equals(_ other: StaticString) -> Bool {
    guard count == other.utf8CodeUnitCount, let base = baseAddress else { return false }
    // Same length, and a static string's bytes stay where they are.
    return unsafe memcmp(base, other.utf8Start, count) == 0
  }
}
