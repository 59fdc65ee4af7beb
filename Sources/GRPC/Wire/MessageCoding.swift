/// How a message may be coded on its way, besides not at all.
///
/// Source: gRPC "Compression", gRPC over HTTP/2 "Message-Encoding".
package enum MessageCoding: Sendable, Equatable {
  case identity
  case gzip

  /// The coding that `grpc-encoding` names, or nil for one that is not known here.
  package init?(field: UnsafeRawBufferPointer) {
    // Read within the call only.
    if unsafe field.equals("identity") {
      self = .identity
    } else if unsafe field.equals("gzip") {
      self = .gzip
    } else {
      return nil
    }
  }

  /// What `grpc-accept-encoding` lets the other side use.
  package init(acceptedBy field: UnsafeRawBufferPointer) {
    self = .identity
    var start = 0
    // In bounds: both indices are at most the count.
    for index in 0...field.count where unsafe index == field.count || field[index] == UInt8(ascii: ",") {
      if unsafe UnsafeRawBufferPointer(rebasing: field[start..<index]).trimmed.equals("gzip") { self = .gzip }
      start = index + 1
    }
  }

  /// All of them, for `grpc-accept-encoding`.
  package static let accepted: StaticString = "identity,gzip"
}

extension UnsafeRawBufferPointer {
  /// Without the spaces around.
  fileprivate var trimmed: UnsafeRawBufferPointer {
    var range = indices
    // In bounds: within the indices.
    while let first = range.first, unsafe self[first] == UInt8(ascii: " ") { range.removeFirst() }
    while let last = range.last, unsafe self[last] == UInt8(ascii: " ") { range.removeLast() }
    return unsafe UnsafeRawBufferPointer(rebasing: self[range])
  }
}
