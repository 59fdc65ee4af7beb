/// What the header block, or the trailers, of a response say, gathered field by field.
///
/// Source: gRPC over HTTP/2, "Responses".
package struct ResponseHead: Sendable {
  /// Metadata: what is neither a pseudo-header field nor reserved for the protocol.
  package private(set) var fields = FieldBlock()
  /// `:status`; nil in trailers and when it is no number.
  package private(set) var httpStatus: Int?
  package private(set) var isGRPC = false
  /// `grpc-status`. A number without a name is `UNKNOWN`, as is what is no number.
  package private(set) var status: StatusCode?
  package private(set) var message = ""
  /// `grpc-status-details-bin`, decoded from base64.
  package private(set) var details: [UInt8]?
  package private(set) var pushback = RetryPushback.none
  /// What the messages with the compressed flag are coded in; nil for a way that was not agreed.
  package private(set) var coding: MessageCoding? = .identity

  package init() {}

  /// Takes one field, its name in lower case.
  package mutating func receive(_ name: UnsafeRawBufferPointer, _ value: UnsafeRawBufferPointer) {
    // Every pointer here is read before the call returns.
    switch name.count {
    case 7 where unsafe name.equals(":status"):
      unsafe httpStatus = Int(String(decoding: value, as: UTF8.self))
    case 11 where unsafe name.equals("grpc-status"):
      let number = unsafe Int(String(decoding: value, as: UTF8.self))
      status = number.flatMap(StatusCode.init(rawValue:)) ?? .unknown
    case 12 where unsafe name.equals("content-type"):
      unsafe isGRPC = Self.isGRPC(value)
    case 12 where unsafe name.equals("grpc-message"):
      unsafe message = PercentEncoding.decode(value)
    case 13 where unsafe name.equals("grpc-encoding"):
      unsafe coding = MessageCoding(field: value)
    case 20 where unsafe name.equals("grpc-accept-encoding"):
      return
    case 22 where unsafe name.equals("grpc-retry-pushback-ms"):
      unsafe pushback = RetryPushback(field: value)
    case 23 where unsafe name.equals("grpc-status-details-bin"):
      unsafe details = BinaryMetadata.decode(value)
    case 0: return
    default:
      // The first byte exists by the case above.
      if unsafe name[0] != UInt8(ascii: ":") { unsafe fields.append(name, value) }
    }
  }

  private static func isGRPC(_ value: UnsafeRawBufferPointer) -> Bool {
    let plain: StaticString = "application/grpc"
    let count = plain.utf8CodeUnitCount
    guard value.count >= count else { return false }
    // In bounds by the checks around.
    guard unsafe UnsafeRawBufferPointer(rebasing: value[..<count]).equals(plain) else { return false }
    guard value.count > count else { return true }
    return unsafe value[count] == UInt8(ascii: "+") || value[count] == UInt8(ascii: ";")
  }
}
