internal import GRPC
internal import NIOCore

/// The parts of an answer to a gRPC-Web call, in the call's format.
struct WebAnswer {
  typealias Fields = [(name: String, value: [UInt8])]

  /// The flag of the frame that holds the trailers.
  private static let trailersFlag: UInt8 = 0x80

  let format: WebFormat
  /// Of the page that asks, if it says so.
  let origin: String?
  let environment: ServerEnvironment

  /// The header fields beside the status.
  func head(_ metadata: Fields = [], isCompressed: Bool = false) -> [(name: String, value: String)] {
    var headers: [(name: String, value: String)] = [("content-type", format.contentType)]
    if isCompressed { headers.append(("grpc-encoding", "gzip")) }
    for field in metadata { headers.append((field.name, String(decoding: field.value, as: UTF8.self))) }
    return headers + environment.pages.cors.fields(origin: origin, exposing: metadata.map(\.name))
  }

  /// Frames as they stand in the body.
  func body(_ frames: ByteBuffer) -> ByteBuffer {
    switch format {
    case .binary: return frames
    case .text:
      let letters = BinaryMetadata.encode(Array(frames.readableBytesView))
      return ByteBuffer(bytes: letters + [UInt8](repeating: UInt8(ascii: "="), count: -letters.count & 3))
    }
  }

  /// The last frame: what HTTP/2 would send as trailers, written as HTTP/1.1 writes fields.
  func trailers(_ failure: RPCError?, _ metadata: Fields = []) -> ByteBuffer {
    var fields: Fields = [("grpc-status", Array(String((failure?.code ?? .ok).rawValue).utf8))]
    if let failure {
      if !failure.message.isEmpty { fields.append(("grpc-message", PercentEncoding.encode(failure.message))) }
      if let details = environment.statusDetailsEncoder(failure) {
        fields.append(("grpc-status-details-bin", BinaryMetadata.encode(details)))
      }
      fields += failure.metadata.carriedFields
    }
    fields += metadata
    var text = ByteBuffer()
    for field in fields {
      text.writeString("\(field.name): ")
      text.writeBytes(field.value)
      text.writeString("\r\n")
    }
    var frame = ByteBuffer()
    frame.writeInteger(Self.trailersFlag)
    // A few fields, each within the limits of header lists.
    frame.writeInteger(UInt32(truncatingIfNeeded: text.readableBytes))
    frame.writeBuffer(&text)
    return frame
  }
}
