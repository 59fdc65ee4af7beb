/// Decodes a body in base64 as it comes.
///
/// The body may be encoded in one piece or in several, each padded for itself, as gRPC-Web's text format allows.
package struct Base64Body: Sendable {
  /// The letters of a group of four that is not complete.
  private var rest: [UInt8] = []

  package init() {}

  /// Whether the letters so far are whole groups.
  package var isComplete: Bool { rest.isEmpty }

  /// What the groups that these bytes complete stand for; nil if they are not base64.
  package mutating func decode(_ bytes: UnsafeRawBufferPointer) -> [UInt8]? {
    // Copied before the call returns.
    unsafe rest.append(contentsOf: bytes)
    let end = rest.count / 4 * 4
    var result: [UInt8] = []
    result.reserveCapacity(end / 4 * 3)
    var start = 0
    // Padding ends a piece; between paddings everything is decoded in one go.
    for group in stride(from: 0, to: end, by: 4) where rest[group + 3] == UInt8(ascii: "=") || group + 4 == end {
      guard let piece = BinaryMetadata.decode(rest[start..<group + 4]) else { return nil }
      result.append(contentsOf: piece)
      start = group + 4
    }
    rest.removeFirst(end)
    return result
  }
}
