import GRPC
import Synchronization
import Testing
import TransportTestSupport

@testable import TransportServer

@Suite(.timeLimit(.minutes(1))) struct ParkedCallTests {
  private static let forms = ["application/grpc", "application/grpc-web"]

  /// Of a call, or of a gRPC-Web call, whose trailers are the last message of its body.
  private func status(_ answer: Answer) -> StatusCode? {
    if let status = answer.status { return status }
    let text = String(decoding: answer.messages.last ?? [], as: UTF8.self)
    return text.split(separator: "\r\n").first { $0.hasPrefix("grpc-status: ") }
      .flatMap { Int($0.dropFirst(13)) }.flatMap(StatusCode.init)
  }

  @Test("A parked call goes on each time it is woken, and ends with its last turn", arguments: forms)
  func turns(form: String) async throws {
    try await TestServer.run { server in
      let bell = server.counters.bell
      let peer = try await TestPeer.connect(server.address)
      async let one = peer.call("/t.T/Listen", Blob([]).frame, headers: [("content-type", form)])
      async let other = peer.call("/t.T/Listen", Blob([]).frame, headers: [("content-type", form)])
      for _ in 0..<3 {
        try await eventually { bell.waiting == 2 }
        // The handlers have returned: no task waits.
        #expect(server.counters.started.load(ordering: .relaxed) == 2)
        #expect(server.server.usage.calls == 2)
        bell.ring()
        try await eventually { bell.waiting == 2 || bell.rings == 3 }
      }
      for answer in [try await one, try await other] {
        #expect(Array(answer.messages.prefix(3)) == [[1], [2], [3]])
        #expect(status(answer) == .ok)
      }
      #expect(bell.waiting == 0)
      try await eventually { server.server.usage.calls == 0 }
      #expect(server.counters.finished.withLock { $0 } == [.ok, .ok])
      // The stream's object serves the next call as if nothing had been.
      #expect(try await peer.call("/t.T/Echo", Blob([5]).frame).messages == [[5]])
      await peer.close()
    }
  }

  @Test("A parked call ends with its client's reset, or its going away", arguments: [true, false], forms)
  func cancellation(byReset: Bool, form: String) async throws {
    try await TestServer.run { server in
      let bell = server.counters.bell
      let peer = try await TestPeer.connect(server.address)
      async let answer = peer.call(
        "/t.T/Listen",
        Blob([]).frame,
        headers: [("content-type", form)],
        cancelAfter: byReset ? .milliseconds(50) : .hours(1)
      )
      if !byReset {
        try await eventually { bell.waiting == 1 }
        await peer.close()
      }
      #expect(try await status(answer) == nil)
      try await eventually { bell.waiting == 0 && server.counters.finished.withLock { $0 } == [.cancelled] }
      try await eventually { server.server.usage.calls == 0 }
      bell.ring()
      await peer.close()
    }
  }

  @Test("A parked call ends with its deadline", arguments: forms)
  func deadline(form: String) async throws {
    try await TestServer.run { server in
      let peer = try await TestPeer.connect(server.address)
      let headers = [("content-type", form), ("grpc-timeout", "100m")]
      let answer = try await peer.call("/t.T/Listen", Blob([]).frame, headers: headers)
      #expect(status(answer) == .deadlineExceeded)
      #expect(server.server.usage.calls == 0)
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
