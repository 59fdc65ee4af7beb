internal import GRPC
internal import HTTP2

/// The header block of a request. Source: gRPC over HTTP/2, "Requests".
enum RequestFields {
  /// The fields in the order that the specification asks for.
  ///
  /// Errors: `INTERNAL` for metadata that cannot travel.
  static func make(
    path: String,
    authority: String,
    isSecure: Bool,
    timeout: Duration?,
    userAgent: String,
    previousAttempts: Int,
    coding: MessageCoding,
    metadata: Metadata
  ) throws(RPCError) -> HTTP2FieldList {
    var fields = HTTP2FieldList()
    fields.add(":method", "POST")
    if isSecure { fields.add(":scheme", "https") } else { fields.add(":scheme", "http") }
    fields.add(":path", path)
    fields.add(":authority", authority)
    fields.add("te", "trailers")
    if let timeout { fields.add("grpc-timeout", GRPCTimeout.format(timeout)) }
    fields.add("content-type", "application/grpc")
    if coding == .gzip { fields.add("grpc-encoding", "gzip") }
    fields.add("grpc-accept-encoding", MessageCoding.accepted)
    fields.add("user-agent", userAgent)
    if previousAttempts > 0 { fields.add("grpc-previous-rpc-attempts", String(previousAttempts)) }
    for entry in metadata.entries { try add(entry, to: &fields) }
    return fields
  }

  private static func add(_ entry: Metadata.Entry, to fields: inout HTTP2FieldList) throws(RPCError) {
    let name = entry.name.utf8
    guard isUsable(name: entry.name) else {
      throw RPCError(.internal, "\"\(entry.name)\" cannot be the name of metadata")
    }
    switch entry.value {
    case .ascii(let value):
      guard !entry.name.hasSuffix("-bin"), value.utf8.allSatisfy({ (0x20...0x7e).contains($0) }) else {
        throw RPCError(.internal, "the value of \(entry.name) is not printable ASCII, or belongs into bytes")
      }
      // Credentials stay out of the compression table, RFC 7541 §7.1.3.
      fields.add(name, value.utf8, sensitive: entry.name == "authorization" || entry.name == "dpop")
    case .binary(let value):
      guard entry.name.hasSuffix("-bin") else {
        throw RPCError(.internal, "the name of \(entry.name) must end in -bin for bytes")
      }
      fields.add(name, BinaryMetadata.encode(value))
    }
  }

  /// Lower case as gRPC allows it, and none of the names that the protocol or the connection uses (RFC 9113 §8.2.2).
  private static func isUsable(name: String) -> Bool {
    let isSpelledRight = name.utf8.allSatisfy { byte in
      switch byte {
      case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "_"),
        UInt8(ascii: "-"), UInt8(ascii: "."):
        true
      default: false
      }
    }
    guard isSpelledRight, !name.isEmpty, !name.hasPrefix("grpc-") else { return false }
    return !reserved.contains(name)
  }

  private static let reserved: Set<String> = [
    "te", "content-type", "user-agent", "connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade",
    "host", "content-length",
  ]
}
