import Compression
import GRPC
import Testing
import TransportTestSupport

@testable import TransportServer

@Suite("Compressed messages")
struct CompressionTests {
  private static let squeeze = "/t.T/Squeeze"
  private static let gzip = [("content-type", "application/grpc"), ("grpc-encoding", "gzip")]
  private static let accepting = gzip + [("grpc-accept-encoding", "identity, deflate, gzip")]

  private func compressed(_ bytes: [UInt8]) throws -> [UInt8] {
    var out: [UInt8] = []
    // Read within the closures only.
    try unsafe bytes.withUnsafeBytes { bytes in
      try unsafe Gzip.compress(bytes) { unsafe out.append(contentsOf: $0) }
    }
    return out
  }

  private func expanded(_ bytes: [UInt8]) throws -> [UInt8] {
    var out: [UInt8] = []
    // As above.
    try unsafe bytes.withUnsafeBytes { bytes in
      try unsafe Gzip.decompress(bytes, limit: 1 << 20) { unsafe out.append(contentsOf: $0) }
    }
    return out
  }

  private func frame(_ bytes: [UInt8]) throws -> [UInt8] {
    [1] + Blob(try compressed(bytes)).frame.dropFirst()
  }

  @Test("A compressed request is expanded; its answer is compressed only where call and client agree")
  func unary() async throws {
    try await TestServer.run { server in
      let peer = try await TestPeer.connect(server.address)
      for first in [UInt8(0), 1] {
        let request = [first] + [UInt8](repeating: 7, count: 20_000)
        for headers in [Self.gzip, Self.accepting] {
          let answer = try await peer.call(Self.squeeze, frame(request), headers: headers)
          #expect(answer.status == .ok)
          let isCompressed = first == 1 && headers.count == 3
          #expect(answer.body.first == (isCompressed ? 1 : 0))
          #expect(answer.fields["grpc-encoding"] == (isCompressed ? "gzip" : nil))
          let message = try #require(answer.messages.first)
          #expect(try (isCompressed ? expanded(message) : message) == [1] + request.dropFirst())
        }
      }
      // The flag may be off on a call that has a coding, and a small answer is not worth it.
      let plain = try await peer.call(Self.squeeze, Blob([1, 2]).frame, headers: Self.accepting)
      #expect(plain.messages == [[0, 2]] && plain.body.first == 0)
      await peer.close()
    }
  }

  @Test("The server's configuration compresses where a call does not say")
  func configured() async throws {
    try await TestServer.run({ $0.compressesResponses = true }) { server in
      let peer = try await TestPeer.connect(server.address)
      let request = [UInt8](repeating: 3, count: 5000)
      let answer = try await peer.call("/t.T/Echo", frame(request), headers: Self.accepting)
      #expect(answer.body.first == 1)
      #expect(try answer.messages.map(expanded) == [request])
      // The handler opts out.
      let plain = try await peer.call(Self.squeeze, frame([0] + request), headers: Self.accepting)
      #expect(plain.body.first == 0 && plain.messages.count == 1)
      let stream = try await peer.call("/t.T/Many", Blob([0]).frame, headers: Self.accepting)
      #expect(try stream.messages.map(expanded).last == [UInt8](repeating: 99, count: 5000))
      await peer.close()
    }
  }

  @Test("What is wrong with a compressed message ends the call with the status that names it")
  func refused() async throws {
    try await TestServer.run { server in
      let peer = try await TestPeer.connect(server.address)
      let plain = [("content-type", "application/grpc")]
      #expect(try await peer.call(Self.squeeze, frame([1]), headers: plain).status == .internal)
      let identity = plain + [("grpc-encoding", "identity")]
      #expect(try await peer.call(Self.squeeze, frame([1]), headers: identity).status == .internal)
      let unknown = try await peer.call(Self.squeeze, frame([1]), headers: plain + [("grpc-encoding", "br")])
      #expect(unknown.status == .unimplemented)
      #expect(unknown.fields["grpc-accept-encoding"] == "identity,gzip")
      for path in [Self.squeeze, "/t.T/Alternate", "/t.T/Many"] {
        let noise = [1] + Blob([UInt8](repeating: 9, count: 50)).frame.dropFirst()
        #expect(try await peer.call(path, noise, headers: Self.gzip).status == .internal)
        #expect(try await peer.call(path, [1, 0, 0, 0, 0], headers: Self.gzip).status == .internal)
        // 64 KiB is the route's limit; the bomb is 100 times that.
        let bomb = try frame([UInt8](repeating: 0, count: 6_553_600))
        let answer = try await peer.call(path, bomb, headers: Self.gzip)
        #expect(answer.status == .resourceExhausted)
        let exact = try await peer.call(path, frame([UInt8](repeating: 0, count: 65_536)), headers: Self.gzip)
        #expect(exact.status == .ok)
      }
      await peer.close()
    }
  }
}
