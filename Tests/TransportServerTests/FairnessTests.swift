import Callers
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

  private static let sharing = { @Sendable (configuration: inout RPCServer.Configuration) in
    configuration.proxies = TrustedProxies([NetworkRange(networkOrAddress: "127.0.0.0/8")].compactMap(\.self))
    configuration.budget.connectionBytes = 400_000
  }

  private static func named(_ client: String) -> [(String, String)] {
    [("content-type", "application/grpc"), ("x-forwarded-for", client)]
  }

  @Test("R50: on a connection that many share who holds all the bytes is refused more, and who holds none is served")
  func bytesOfShared() async throws {
    try await TestServer.run(Self.sharing) { server in
      let proxy = try await TestPeer.connect(server.address)
      // Of calls that are let in whatever the load, so that nothing of it is refused.
      let half = Array(Blob([UInt8](repeating: 7, count: 60_000)).frame.dropLast())
      try await withThrowingTaskGroup(of: Answer?.self) { group in
        for _ in 0..<8 {
          group.addTask {
            try? await proxy.call("/t.T/Probe", half, headers: Self.named("192.0.2.1"), endStream: false)
          }
        }
        try await eventually { server.server.usage.bufferedBytes >= 400_000 }
        let more = try await proxy.call("/t.T/Pause", Blob([1]).frame, headers: Self.named("192.0.2.1"))
        #expect(more.status == .resourceExhausted)
        for _ in 0..<5 {
          let other = try await proxy.call("/t.T/Pause", Blob([1]).frame, headers: Self.named("192.0.2.2"))
          #expect(other.status == .ok)
        }
        await proxy.close()
        while try await group.next() != nil {}
      }
      try await eventually { server.server.usage.bufferedBytes == 0 && server.server.usage.calls == 0 }
    }
  }

  @Test("R50: on a connection that many share who has all the handlers gets no further one, and who has none does")
  func handlersOfShared() async throws {
    try await TestServer.run(Self.sharing) { server in
      let proxy = try await TestPeer.connect(server.address)
      // A client may cancel so many in a burst; these handlers stay.
      for round in 1...3 {
        await withTaskGroup(of: Void.self) { group in
          for _ in 0..<70 {
            group.addTask {
              let fields = Self.named("192.0.2.\(round)")
              _ = try? await proxy.call(
                "/t.T/Stubborn", Blob([1]).frame, headers: fields, cancelAfter: .milliseconds(500))
            }
          }
        }
      }
      try await eventually { server.counters.started.load(ordering: .relaxed) == 200 }
      let more = try await proxy.call("/t.T/Echo", Blob([1]).frame, headers: Self.named("192.0.2.1"))
      #expect(more.closed == 7)
      #expect(try await proxy.call("/t.T/Echo", Blob([1]).frame, headers: Self.named("192.0.2.9")).status == .ok)
      server.counters.isReleased.store(true, ordering: .relaxed)
      try await eventually { server.server.usage.calls == 0 }
      await proxy.close()
    }
  }
}
