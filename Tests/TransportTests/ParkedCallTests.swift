import GRPC
import Synchronization
import Testing

@testable import Transport

@Suite(.timeLimit(.minutes(1))) struct ParkedCallTests {
  @Test("A parked call goes on each time it is woken, and ends with its last turn")
  func turns() async throws {
    try await TestServer.run { server in
      let bell = server.counters.bell
      let peer = try await TestPeer.connect(server.address)
      async let one = peer.call("/t.T/Listen", Blob([]).frame)
      async let other = peer.call("/t.T/Listen", Blob([]).frame)
      for _ in 0..<3 {
        try await eventually { bell.waiting == 2 }
        bell.ring()
        try await eventually { bell.waiting == 2 || bell.rings == 3 }
      }
      for answer in [try await one, try await other] {
        #expect(answer.messages == [[1], [2], [3]])
        #expect(answer.status == .ok)
      }
      #expect(bell.waiting == 0)
      #expect(server.counters.finished.withLock { $0 } == [.ok, .ok])
      // The stream's object serves the next call as if nothing had been.
      #expect(try await peer.call("/t.T/Echo", Blob([5]).frame).messages == [[5]])
      await peer.close()
    }
  }

  @Test("A parked call ends with its client's reset, or its going away", arguments: [true, false])
  func cancellation(byReset: Bool) async throws {
    try await TestServer.run { server in
      let bell = server.counters.bell
      let peer = try await TestPeer.connect(server.address)
      async let answer = peer.call("/t.T/Listen", Blob([]).frame, cancelAfter: byReset ? .milliseconds(50) : .hours(1))
      if !byReset {
        try await eventually { bell.waiting == 1 }
        await peer.close()
      }
      #expect(try await answer.status == nil)
      try await eventually { bell.waiting == 0 && server.counters.finished.withLock { $0 } == [.cancelled] }
      bell.ring()
      await peer.close()
    }
  }

  @Test("A parked call ends with its deadline")
  func deadline() async throws {
    try await TestServer.run { server in
      let peer = try await TestPeer.connect(server.address)
      let headers = [("content-type", "application/grpc"), ("grpc-timeout", "100m")]
      let answer = try await peer.call("/t.T/Listen", Blob([]).frame, headers: headers)
      #expect(answer.status == .deadlineExceeded)
      #expect(server.counters.bell.waiting == 0)
      await peer.close()
    }
  }

  @Test("Without a transport that parks, the same call is served by its task")
  func withoutTransport() async throws {
    let bell = Bell()
    let outbox = MessageOutbox(ready: {})
    let task = Task {
      let writer = ResponseWriter<Blob>(outbox)
      try await writer.serve(Bell.Listener(bell, writer))
    }
    for _ in 0..<3 {
      try await eventually { bell.waiting == 1 }
      bell.ring()
      try await eventually { bell.waiting == 1 || bell.rings == 3 }
    }
    try await task.value
    #expect(outbox.take().count == 3)
    let cancelled = Task {
      let writer = ResponseWriter<Blob>(outbox)
      try await writer.serve(Bell.Listener(bell, writer))
    }
    try await eventually { bell.waiting == 1 }
    cancelled.cancel()
    await #expect(throws: RPCError.self) { try await cancelled.value }
    #expect(bell.waiting == 0)
  }
}
