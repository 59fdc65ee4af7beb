import GRPC
import NIOCore
import Testing
import TransportTestSupport

@testable import TransportServer

/// Peers come from addresses of loopback of their own.
@Suite("A server's room is shared by source", .timeLimit(.minutes(2)))
struct FairnessTests {
  private static let greedy = "127.0.7.1"
  private static let honest = "127.0.7.2"

  @Test("R50: who has all the waiting calls makes room for who has none, is told so, and gets no further one")
  func calls() async throws {
    try await TestServer.run({ $0.budget.calls = 8 }) { server in
      let many = try await TestPeer.connect(server.address, from: Self.greedy)
      try await withThrowingTaskGroup(of: Answer.self) { group in
        for _ in 0..<8 {
          group.addTask { try await many.call("/t.T/Wait", Blob([]).frame, cancelAfter: .seconds(5)) }
        }
        try await eventually { server.server.usage.calls == 8 }
        #expect(try await many.call("/t.T/Wait", Blob([]).frame).status == .resourceExhausted)
        let few = try await TestPeer.connect(server.address, from: Self.honest)
        #expect(try await few.call("/t.T/Pause", Blob([1]).frame).status == .ok)
        // Told, where the others wait for their client to give up.
        let first = try #require(try await group.next())
        #expect(first.status == .resourceExhausted && first.fields["grpc-status-details-bin"] == "T1ZFUkxPQURFRA")
        await many.close()
        await few.close()
        while (try? await group.next()) != nil {}
      }
      try await eventually { server.server.usage.calls == 0 }
    }
  }

  @Test("R50: who has all the connections makes room for who has none, by GOAWAY, and gets no further one")
  func connections() async throws {
    try await TestServer.run({ $0.budget.connections = 6 }) { server in
      var many: [TestPeer] = []
      for _ in 0..<6 {
        let peer = try await TestPeer.connect(server.address, from: Self.greedy)
        #expect(try await peer.call("/t.T/Echo", Blob([1]).frame).status == .ok)
        many.append(peer)
      }
      let refused = try await TestPeer.connect(server.address, from: Self.greedy)
      #expect(await refused.isClosed(within: .seconds(30)))
      var few: [TestPeer] = []
      for _ in 0..<3 {
        let peer = try await TestPeer.connect(server.address, from: Self.honest)
        #expect(try await peer.call("/t.T/Echo", Blob([1]).frame).status == .ok)
        few.append(peer)
      }
      try await eventually { many.filter { $0.lastGoAway?.code == 11 }.count == 3 }
      // Both have as many: nobody has to go for either.
      let fourth = try await TestPeer.connect(server.address, from: Self.honest)
      #expect(await fourth.isClosed(within: .seconds(30)))
      for peer in few { #expect(try await peer.call("/t.T/Echo", Blob([1]).frame).status == .ok) }
      for peer in many + few { await peer.close() }
    }
  }

  @Test("R50: who lets all the bytes wait loses its answers before anybody else is refused")
  func bytes() async throws {
    let limits = { (configuration: inout RPCServer.Configuration) in
      configuration.budget.connectionBytes = 400_000
      configuration.budget.bufferedBytes = 1_000_000
    }
    try await TestServer.run(limits) { server in
      var closed: [TestPeer] = []
      for _ in 0..<5 { closed.append(try await TestPeer.connect(server.address, initialWindow: 0, from: Self.greedy)) }
      try await withThrowingTaskGroup(of: Bool?.self) { [closed] group in
        for peer in closed {
          for _ in 0..<40 { group.addTask { try? await peer.call("/t.T/Many", Blob([0]).frame).closed == 11 } }
        }
        try await eventually { server.server.usage.bufferedBytes >= 1_000_000 }
        let few = try await TestPeer.connect(server.address, from: Self.honest)
        for _ in 0..<5 { #expect(try await few.call("/t.T/Echo", Blob([1]).frame).status == .ok) }
        try await eventually { server.server.usage.bufferedBytes < 1_000_000 }
        // ENHANCE_YOUR_CALM, which gRPC's clients take for RESOURCE_EXHAUSTED.
        while let ended = try await group.next() { if ended == true { break } }
        for peer in closed { await peer.close() }
        await few.close()
        try await group.waitForAll()
      }
      try await eventually { server.server.usage.bufferedBytes == 0 }
    }
  }

  @Test("R50: one honest source is served beside many greedy ones that hold everything together")
  func manySources() async throws {
    try await TestServer.run({ $0.budget.calls = 80 }) { server in
      var many: [TestPeer] = []
      for source in 1...20 { many.append(try await TestPeer.connect(server.address, from: "127.0.8.\(source)")) }
      try await withThrowingTaskGroup(of: Void.self) { [many] group in
        for peer in many {
          for _ in 0..<10 { group.addTask { _ = try? await peer.call("/t.T/Wait", Blob([]).frame) } }
        }
        try await eventually { server.server.usage.calls >= 80 }
        let few = try await TestPeer.connect(server.address, from: Self.honest)
        for _ in 0..<10 { #expect(try await few.call("/t.T/Pause", Blob([1]).frame).status == .ok) }
        for peer in many { await peer.close() }
        await few.close()
        try await group.waitForAll()
      }
      try await eventually { server.server.usage.calls == 0 }
    }
  }
}
