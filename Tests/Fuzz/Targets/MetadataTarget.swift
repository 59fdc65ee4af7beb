import GRPC
import NIOCore

/// Header fields of calls, from both sides, and the codings of their values.
///
/// The input is lines, alternately a name and a value.
struct MetadataTarget: FuzzTarget {
  let name = "metadata"

  private static let router = Router([
    .unary(RPCMethod(path: "/t.T/Echo", kind: .unary)) { (request: Nothing, _) async throws(RPCError) -> Nothing in
      request
    }
  ])

  func run(_ input: UnsafeRawBufferPointer) {
    // Copied.
    let bytes = unsafe Array(input)
    let lines = bytes.split(separator: UInt8(ascii: "\n"), maxSplits: 200, omittingEmptySubsequences: false)
    heads(lines.map(Array.init))
    for line in lines { codings(Array(line)) }
  }

  private func heads(_ lines: [[UInt8]]) {
    var request = RequestHead()
    var response = ResponseHead()
    for index in stride(from: 0, to: lines.count - 1, by: 2) {
      unsafe lines[index].withUnsafeBytes { name in
        unsafe lines[index + 1].withUnsafeBytes { value in
          // The heads copy what they keep.
          unsafe request.receive(name, value, Self.router)
          unsafe response.receive(name, value)
        }
      }
    }
    if case .call(_, let timeout?) = request.verdict { precondition(timeout >= .zero, "a timeout below zero") }
    for entry in Metadata(request.fields).entries {
      precondition(!entry.name.hasPrefix(":"), "a pseudo-header field among the metadata")
    }
    _ = Metadata(response.fields)
  }

  private func codings(_ bytes: [UInt8]) {
    let text = PercentEncoding.decode(bytes)
    precondition(PercentEncoding.decode(PercentEncoding.encode(text)) == text, "percent-encoding loses something")
    precondition(BinaryMetadata.decode(BinaryMetadata.encode(bytes)) == bytes, "base64 loses something")
    if let decoded = BinaryMetadata.decode(bytes) {
      let canonical = BinaryMetadata.encode(decoded)
      precondition(bytes.starts(with: canonical), "two texts of base64 mean the same")
      precondition(bytes.dropFirst(canonical.count).allSatisfy { $0 == UInt8(ascii: "=") }, "more than padding")
    }
    // Read within the closure only.
    if let timeout = unsafe bytes.withUnsafeBytes({ unsafe GRPCTimeout.parse($0) }) {
      var text = GRPCTimeout.format(timeout)
      guard let again = text.withUTF8({ unsafe GRPCTimeout.parse(UnsafeRawBufferPointer($0)) }) else {
        preconditionFailure("\(text) does not parse")
      }
      precondition(again <= timeout, "the server would wait for longer than the client")
    }
  }

  private struct Nothing: RPCMessage {
    init(decoding bytes: UnsafeRawBufferPointer) throws(RPCError) {}
    func encode(into buffer: inout ByteBuffer) throws(RPCError) {}
  }
}
