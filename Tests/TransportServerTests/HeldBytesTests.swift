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

  @Test("W4: the fields of an open call", arguments: ["/t.T/PingPong", "/t.T/Wait"], [2_000, 12_000])
  func fields(_ path: String, _ count: Int) async throws {
    let long = String(repeating: "v", count: count)
    try await hold(20 * count / 2, path, []) { [Self.call, ("x", long), ("n", "\($0)")] }
  }

  /// A message of 60,000 bytes, compressed.
  private func compressed() throws -> [UInt8] {
    var small: [UInt8] = []
    try unsafe [UInt8](repeating: 0, count: 60_000).withUnsafeBytes { bytes in
      try unsafe Gzip.compress(bytes) { piece in unsafe small.append(contentsOf: piece) }
    }
    return [1, 0, 0, UInt8(small.count >> 8), UInt8(small.count & 255)] + small
  }

  private func compressedFields(isWeb: Bool) -> [(String, String)] {
    [("content-type", isWeb ? "application/grpc-web" : "application/grpc"), ("grpc-encoding", "gzip")]
  }

  @Test("W5: a compressed request, by what it stands for", arguments: [false, true])
  func compressed(isWeb: Bool) async throws {
    let fields = compressedFields(isWeb: isWeb)
    try await hold(20 * 55_000, "/t.T/Echo", try compressed()) { _ in fields }
  }

  @Test("W5: a call that waits keeps nothing of its request", arguments: [false, true])
  func parked(isWeb: Bool) async throws {
    try await TestServer.run { server in
      let peer = try await TestPeer.connect(server.address)
      let (body, fields) = (try compressed(), compressedFields(isWeb: isWeb))
      async let answer = peer.call("/t.T/Listen", body, headers: fields, cancelAfter: .seconds(3))
      try await eventually { server.server.usage.calls == 1 }
      try await eventually { server.server.usage.bufferedBytes == 0 }
      // It still waits.
      #expect(server.server.usage.calls == 1)
      _ = try await answer
      await peer.close()
    }
  }

  @Test("W5: a gRPC-Web call that failed keeps nothing of its request while its answer waits for the peer")
  func failedWeb() async throws {
    try await TestServer.run { server in
      let peer = try await TestPeer.connect(server.address, initialWindow: 1)
      let (isHeld, becomesHeld) = AsyncStream<Void>.makeStream()
      let second = Task {
        for await _ in isHeld {}
        return Blob([1]).frame
      }
      let first = Blob([UInt8](repeating: 1, count: 14_000)).frame
      let fields = [("content-type", "application/grpc-web")]
      let answers = (0..<4).map { _ in
        Task { try await peer.call("/t.T/Echo", first, headers: fields, endStream: false, later: second) }
      }
      do {
        // Whatever fails, nobody waits for what does not come.
        defer { becomesHeld.finish() }
        // It is told in steps.
        try await eventually { server.server.usage.bufferedBytes > 40_000 }
      }
      // Their trailers are what still counts.
      try await eventually { (1..<4_000).contains(server.server.usage.bufferedBytes) }
      await peer.close()
      for answer in answers { _ = try? await answer.value }
    }
  }

  @Test(
    "R50: a message on a stream from before a shortage has room as its source has",
    arguments: [("127.0.0.1", StatusCode.resourceExhausted), ("127.0.0.2", .ok)])
  func olderStream(_ source: String, _ status: StatusCode) async throws {
    try await TestServer.run { server in
      (server.budget.connectionBytes, server.budget.bufferedBytes) = (400_000, 400_000)
    } _: { server in
      let older = try await TestPeer.connect(server.address, from: source)
      let large = [try await TestPeer.connect(server.address), try await TestPeer.connect(server.address)]
      let (isShort, becomesShort) = AsyncStream<Void>.makeStream()
      let later = Task { [frame = Blob([1]).frame] in
        for await _ in isShort {}
        return frame
      }
      let answer = Task { try await older.call("/t.T/PingPong", [], endStream: false, later: later) }
      try await withThrowingTaskGroup(of: Void.self) { group in
        // Whatever fails, nobody waits for what does not come.
        defer { becomesShort.finish() }
        try await eventually { server.server.usage.calls == 1 }
        let long = String(repeating: "v", count: 12_000)
        // A busy machine may refuse some of them.
        var number = 0
        try await eventually {
          let fields = [Self.call, ("x", long), ("n", "\(number)")]
          let peer = large[number % 2]
          number += 1
          group.addTask {
            _ = try await peer.call("/t.T/Wait", [], headers: fields, endStream: false, cancelAfter: .seconds(10))
          }
          return server.server.usage.bufferedBytes >= 400_000
        }
        // Until the server has looked once more at who holds how much.
        try await Task.sleep(for: .milliseconds(2 * Limits.shedInterval.nanoseconds / 1_000_000))
        becomesShort.finish()
        let message = try await answer.value
        #expect(message.status == status)
        // Ends the calls that wait.
        for peer in large { await peer.close() }
        try await group.waitForAll()
      }
      await older.close()
    }
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
