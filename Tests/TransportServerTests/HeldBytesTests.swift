import Callers
import Compression
import GRPC
import NIOCore
import Testing
import TransportTestSupport

@testable import TransportServer

@Suite("What a call makes the server hold counts, in whatever form it came") struct HeldBytesTests {
  private static let call = ("content-type", "application/grpc")

  /// Begins calls that go no further, and waits until the server counts more than `bytes` for them; then that they are let go.
  private func hold(
    _ bytes: Int, _ path: String, _ body: [UInt8], headers: @escaping @Sendable (Int) -> [(String, String)]
  ) async throws {
    try await TestServer.run { server in
      let peer = try await TestPeer.connect(server.address)
      try await withThrowingTaskGroup(of: Void.self) { group in
        for number in 0..<20 {
          group.addTask {
            _ = try await peer.call(path, body, headers: headers(number), endStream: false, cancelAfter: .seconds(3))
          }
        }
        try await eventually { server.server.usage.bufferedBytes > bytes }
        try await group.waitForAll()
      }
      try await eventually { server.server.usage.bufferedBytes == 0 }
      await peer.close()
    }
  }

  @Test("W4: the fields of an open call, where they are many", arguments: ["/t.T/PingPong", "/t.T/Wait"])
  func fields(_ path: String) async throws {
    let long = String(repeating: "v", count: 12_000)
    try await hold(20 * 12_000, path, []) { [Self.call, ("x", long), ("n", "\($0)")] }
  }

  @Test("W5: a compressed request, by what it stands for", arguments: [false, true])
  func compressed(isWeb: Bool) async throws {
    var small: [UInt8] = []
    try unsafe [UInt8](repeating: 0, count: 60_000).withUnsafeBytes { bytes in
      try unsafe Gzip.compress(bytes) { piece in unsafe small.append(contentsOf: piece) }
    }
    let frame = [1, 0, 0, UInt8(small.count >> 8), UInt8(small.count & 255)] + small
    let type = ("content-type", isWeb ? "application/grpc-web" : "application/grpc")
    try await hold(20 * 55_000, "/t.T/Echo", frame) { _ in [type, ("grpc-encoding", "gzip")] }
  }

  @Test("R50: a shortage that begins between two looks has not everybody refused", arguments: [false, true])
  func nextShortage(isOfBytes: Bool) {
    var bounds = ServerBudget.Bounds()
    (bounds.connectionBytes, bounds.bufferedBytes, bounds.calls) = (1 << 20, 1 << 20, 8)
    let budget = ServerBudget(bounds)
    let large = budget.sources.account(of: NetworkAddress("192.0.2.1"))
    let little = budget.sources.account(of: NetworkAddress("198.51.100.1"))
    if isOfBytes { budget.buffered(1 << 20, large) } else { budget.callsWait(8, large) }
    #expect(budget.hasRoom(for: little))
    if isOfBytes { budget.callsWait(8, large) } else { budget.buffered(1 << 20, large) }
    #expect(budget.hasRoom(for: little))
  }
}
