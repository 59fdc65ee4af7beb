import GRPC
import Testing
import TransportTestSupport

@testable import TransportClient

@Suite("Compressed messages of a client")
struct ClientCompressionTests {
  @Test("Our client compresses what it is told to and expands what it gets")
  func client() async throws {
    try await ClientChannelTests().run { channel, _ in
      for (coding, first) in [(MessageCoding.gzip, UInt8(1)), (.gzip, 0), (.identity, 1)] {
        let received = ResponseMetadata()
        let text = [UInt8](repeating: 5, count: 30_000)
        let response: Blob = try await channel.unary(
          RPCMethod(path: "/t.T/Squeeze", kind: .unary),
          Blob([first] + text),
          options: CallOptions(compression: coding, responseMetadata: received)
        )
        #expect(response.bytes == [coding == .gzip ? 1 : 0] + text)
        #expect(received.wasCompressed == (first == 1))
      }
    }
  }

  @Test("Each message of a stream says for itself whether it is compressed")
  func streams() async throws {
    try await ClientChannelTests().run { channel, _ in
      let text = [UInt8](repeating: 6, count: 9000)
      let seen: [String] = try await channel.bidirectional(
        RPCMethod(path: "/t.T/Alternate", kind: .bidirectional),
        options: CallOptions(compression: .gzip),
        { (writer: RequestWriter<Blob>) async throws(RPCError) in
          for isCompressed in [true, true, false, false] {
            try await writer.write(Blob(text), compressed: isCompressed)
          }
        },
        { (responses: ResponseStream<Blob>) async throws(RPCError) in
          var seen: [String] = []
          var iterator = responses.makeAsyncIterator()
          while let response = try await iterator.next() {
            #expect(response.bytes.dropFirst() == text.dropFirst())
            seen.append("\(response.bytes[0])\(iterator.wasCompressed)")
          }
          return seen
        }
      )
      #expect(seen == ["1true", "1false", "0true", "0false"])
    }
  }
}
