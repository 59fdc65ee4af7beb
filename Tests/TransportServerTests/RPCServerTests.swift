import GRPC
import HTTP2
import NIOCore
import Synchronization
import Testing
import TransportTestSupport

@testable import TransportServer

@Suite struct RPCServerTests {
  @Test("A unary call is answered, whether its handler suspends or not", arguments: ["/t.T/Echo", "/t.T/Yield"])
  func unary(path: String) async throws {
    try await TestServer.run { server in
      let peer = try await TestPeer.connect(server.address)
      for size in [0, 1, 100, 60_000, 64 * 1024] {
        let blob = Blob([UInt8](repeating: 7, count: size))
        let answer = try await peer.call(path, blob.frame)
        #expect(answer.httpStatus == "200")
        #expect(answer.status == .ok)
        #expect(answer.messages == [blob.bytes])
        #expect(answer.closed == 0)
      }
      await peer.close()
    }
  }

  @Test("Metadata reaches the handler and comes back, also in bytes")
  func metadata() async throws {
    try await TestServer.run { server in
      let peer = try await TestPeer.connect(server.address)
      let answer = try await peer.call(
        "/t.T/Echo",
        Blob([1]).frame,
        headers: [("content-type", "application/grpc"), ("x-echo", "hello"), ("x-echo-bin", "AAH/")]
      )
      #expect(answer.fields["x-echo"] == "hello")
      #expect(answer.trailers["x-echo-bin"] == "AAH/")
      await peer.close()
    }
  }

  @Test("A failure comes as trailers alone, with its message and details, and lets no header be forged")
  func failure() async throws {
    try await TestServer.run { server in
      let peer = try await TestPeer.connect(server.address)
      let answer = try await peer.call("/t.T/Fail", Blob([1]).frame)
      #expect(answer.httpStatus == "200")
      #expect(answer.trailers.isEmpty)
      #expect(answer.status == .notFound)
      #expect(answer.message == "nöt\nhere")
      #expect(answer.fields["grpc-status-details-bin"] == "R09ORQ")
      #expect(answer.fields["x-good"] == "yes")
      #expect(answer.fields["x-why"] == nil)
      await peer.close()
    }
  }

  @Test("A request that is none is answered with its status and the connection lives")
  func badRequests() async throws {
    try await TestServer.run { server in
      let peer = try await TestPeer.connect(server.address)
      let grpc = ("content-type", "application/grpc")
      #expect(try await peer.call("/t.T/Nope", Blob([1]).frame).status == .unimplemented)
      #expect(try await peer.call("/t.T/Echo", [], headers: [("content-type", "application/json")]).httpStatus == "415")
      #expect(try await peer.call("/t.T/Echo", []).status == .unimplemented)
      #expect(try await peer.call("/t.T/Echo", Blob([1]).frame + Blob([2]).frame).status == .unimplemented)
      #expect(try await peer.call("/t.T/Echo", [0, 0, 0, 0, 9, 1]).status == .internal)
      #expect(try await peer.call("/t.T/Echo", [0, 0, 0]).status == .internal)
      #expect(try await peer.call("/t.T/Echo", [1, 0, 0, 0, 0]).status == .internal)
      #expect(
        try await peer.call("/t.T/Echo", [0, 0xff, 0xff, 0xff, 0xff], endStream: false).status == .resourceExhausted
      )
      #expect(try await peer.call("/t.T/Echo", [], headers: [grpc, ("grpc-timeout", "x")]).status == .internal)
      #expect(try await peer.call("/t.T/Echo", [], headers: [grpc, ("x-bin", "!")]).status == .internal)
      let encoding = try await peer.call("/t.T/Echo", [], headers: [grpc, ("grpc-encoding", "snappy")])
      #expect(encoding.status == .unimplemented)
      #expect(encoding.fields["grpc-accept-encoding"]?.contains("identity") == true)
      #expect(try await peer.call("/t.T/Echo", [], headers: [grpc, ("x-refuse", "1")]).status == .unauthenticated)
      #expect(try await peer.call("/t.T/Echo", Blob([1]).frame).status == .ok)
      await peer.close()
    }
  }

  @Test("A deadline ends the call with DEADLINE_EXCEEDED and cancels the handler")
  func deadline() async throws {
    try await TestServer.run { server in
      let peer = try await TestPeer.connect(server.address)
      let start = ContinuousClock.now
      let answer = try await peer.call(
        "/t.T/Wait",
        Blob([]).frame,
        headers: [("content-type", "application/grpc"), ("grpc-timeout", "1S")]
      )
      #expect(answer.status == .deadlineExceeded)
      #expect(start.duration(to: .now) < .seconds(15))
      try await eventually { server.counters.cancelled.load(ordering: .relaxed) == 1 }
      #expect(server.counters.finished.withLock { $0 } == [.deadlineExceeded])
      await peer.close()
    }
  }

  @Test("A call lasts no longer than the server lets it, whatever its client asks for", arguments: ["1H", nil])
  func timeLimit(asked: String?) async throws {
    try await TestServer.run({ $0.unaryTimeLimit = .seconds(1) }) { server in
      let peer = try await TestPeer.connect(server.address)
      let timeout = asked.map { [("grpc-timeout", $0)] } ?? []
      let headers = [("content-type", "application/grpc")] + timeout
      let answer = try await peer.call("/t.T/Wait", Blob([]).frame, headers: headers)
      #expect(answer.status == .deadlineExceeded)
      try await eventually { server.counters.cancelled.load(ordering: .relaxed) == 1 }
      await peer.close()
    }
  }

  @Test("A connection without a call is told to go after a while; one with a call is kept")
  func idle() async throws {
    try await TestServer.run({ $0.idleTimeout = .seconds(1) }) { server in
      let busy = try await TestPeer.connect(server.address)
      async let waiting = busy.call("/t.T/Stubborn", Blob([1]).frame)
      try await eventually { server.counters.started.load(ordering: .relaxed) == 1 }
      let idle = try await TestPeer.connect(server.address)
      #expect(try await idle.call("/t.T/Echo", Blob([1]).frame).status == .ok)
      #expect(await idle.isClosed(within: .seconds(30)))
      #expect(idle.lastGoAway?.code == 0)
      #expect(busy.lastGoAway == nil)
      server.counters.isReleased.store(true, ordering: .relaxed)
      #expect(try await waiting.status == .ok)
      #expect(await busy.isClosed(within: .seconds(30)))
    }
  }

  @Test("Handlers that do not end when their calls are cancelled are bounded by connection")
  func handlers() async throws {
    try await TestServer.run { server in
      let peer = try await TestPeer.connect(server.address)
      // A client may reset so many in a burst; these handlers stay.
      for round in 1...2 {
        try await withThrowingTaskGroup(of: Void.self) { group in
          for _ in 0..<90 {
            group.addTask { _ = try await peer.call("/t.T/Stubborn", Blob([1]).frame, cancelAfter: .milliseconds(500)) }
          }
          try await group.waitForAll()
        }
        try await eventually { server.counters.started.load(ordering: .relaxed) == 90 * round }
      }
      let answers = try await withThrowingTaskGroup(of: Answer.self) { group in
        for _ in 0..<30 { group.addTask { try await peer.call("/t.T/Stubborn", Blob([1]).frame) } }
        try await eventually { server.counters.started.load(ordering: .relaxed) >= 200 }
        // Answered once those before it are: released earlier, a handler could make room for it.
        var answers = [try await peer.call("/t.T/Echo", Blob([2]).frame)]
        server.counters.isReleased.store(true, ordering: .relaxed)
        for try await answer in group { answers.append(answer) }
        return answers
      }
      // REFUSED_STREAM: no code of ours has seen the call, so any client may repeat it.
      #expect(answers.filter { $0.closed == 7 }.count == 11)
      #expect(answers.filter { $0.status == .ok }.count == 20)
      #expect(server.counters.started.load(ordering: .relaxed) == 200)
      try await eventually { server.server.usage.calls == 0 }
      #expect(try await peer.call("/t.T/Echo", Blob([1]).frame).status == .ok)
      await peer.close()
    }
  }

  @Test("A client's reset, or its going away, cancels the handler", arguments: [true, false])
  func cancellation(byReset: Bool) async throws {
    try await TestServer.run { server in
      let peer = try await TestPeer.connect(server.address)
      async let answer = peer.call("/t.T/Wait", Blob([]).frame, cancelAfter: byReset ? .milliseconds(50) : .hours(1))
      try await eventually { server.counters.started.load(ordering: .relaxed) == 1 }
      if !byReset { await peer.close() }
      try await eventually { server.counters.cancelled.load(ordering: .relaxed) == 1 }
      #expect(try await answer.status == nil)
      #expect(server.counters.finished.withLock { $0 } == [.cancelled])
      await peer.close()
    }
  }

  @Test("A stream of answers arrives whole and in order, then its status")
  func serverStreaming() async throws {
    try await TestServer.run { server in
      let peer = try await TestPeer.connect(server.address)
      for (first, status) in [(UInt8(0), StatusCode.ok), (1, .dataLoss)] {
        let answer = try await peer.call("/t.T/Many", Blob([first]).frame)
        #expect(answer.messages.count == 100)
        #expect(answer.messages.enumerated().allSatisfy { $1 == [UInt8](repeating: UInt8($0), count: 5000) })
        #expect(answer.status == status)
      }
      await peer.close()
    }
  }

  @Test("A client that streams more than a window gets its answer")
  func clientStreaming() async throws {
    try await TestServer.run { server in
      let peer = try await TestPeer.connect(server.address)
      let body = (0..<50).flatMap { Blob([UInt8](repeating: 1, count: $0 * 1000)).frame }
      let answer = try await peer.call("/t.T/Sum", body)
      #expect(answer.messages == [Array("1225000".utf8)])
      #expect(answer.status == .ok)
      #expect(try await peer.call("/t.T/Sum", [0, 0]).status == .internal)
      await peer.close()
    }
  }

  @Test("Both sides may stream, also nothing")
  func bidirectional() async throws {
    try await TestServer.run { server in
      let peer = try await TestPeer.connect(server.address)
      let blobs = (0..<30).map { Blob([UInt8](repeating: UInt8($0), count: $0 * 2000)) }
      let answer = try await peer.call("/t.T/PingPong", blobs.flatMap(\.frame))
      #expect(answer.messages == blobs.map(\.bytes))
      #expect(answer.status == .ok)
      let empty = try await peer.call("/t.T/PingPong", [])
      #expect(empty.status == .ok)
      #expect(empty.messages.isEmpty)
      await peer.close()
    }
  }

  @Test("R50: a stream waits for its first message without a task, counted and with its deadline")
  func silentStreams() async throws {
    try await TestServer.run { server in
      let peer = try await TestPeer.connect(server.address)
      let started = { server.counters.started.load(ordering: .relaxed) }
      let timeout = [("content-type", "application/grpc"), ("grpc-timeout", "300m")]
      for (count, begun) in [[], Array(Blob([1, 2]).frame.dropLast())].enumerated() {
        async let silent = peer.call("/t.T/Refuse", begun, headers: timeout, endStream: false)
        try await eventually { server.server.usage.calls == 1 }
        #expect(try await silent.status == .deadlineExceeded, "\(count)")
        try await eventually { server.server.usage.calls == 0 }
      }
      #expect(started() == 0)
      #expect(try await peer.call("/t.T/Refuse", Blob([]).frame, endStream: false).status == .permissionDenied)
      #expect(try await peer.call("/t.T/Refuse", []).status == .permissionDenied)
      #expect(started() == 2)
      async let left = peer.call("/t.T/Refuse", [], endStream: false, cancelAfter: .milliseconds(100))
      _ = try await left
      try await eventually { server.server.usage.calls == 0 }
      #expect(started() == 2)
      await peer.close()
    }
  }

  @Test("Pages answer over HTTP/2 beside the calls")
  func pages() async throws {
    try await TestServer.run { server in
      let peer = try await TestPeer.connect(server.address)
      let health = try await peer.call("/healthz", [], headers: [], method: "GET")
      #expect(health.httpStatus == "200")
      #expect(!health.body.isEmpty)
      #expect(try await peer.call("/page?a=1", [], headers: [], method: "GET").body == Array("query a=1".utf8))
      #expect(try await peer.call("/form", [1, 2], headers: [], method: "POST").body == [1, 2])
      #expect(try await peer.call("/none", [], headers: [], method: "GET").httpStatus == "404")
      #expect(try await peer.call("/page", [], headers: [], method: "DELETE").httpStatus == "405")
      let head = try await peer.call("/page", [], headers: [], method: "HEAD")
      #expect(head.httpStatus == "200")
      #expect(head.body.isEmpty)
      await peer.close()
    }
  }

  @Test("Cookies that come in several fields are one field to a page")
  func cookies() async throws {
    try await TestServer.run { server in
      let peer = try await TestPeer.connect(server.address)
      let cookies = [("cookie", "a=1"), ("x", "y"), ("cookie", "b=2; c=3")]
      let answer = try await peer.call("/cookie", [], headers: cookies, method: "GET")
      #expect(String(decoding: answer.body, as: UTF8.self) == "a=1; b=2; c=3")
      #expect(try await peer.call("/cookie", [], headers: [], method: "GET").body == Array("none".utf8))
      await peer.close()
    }
  }

  @Test("Pages answer over HTTP/1.1 on the same port")
  func http1() async throws {
    try await TestServer.run { server in
      let peer = try await TestPeer.connect(server.address)
      try await peer.send(raw: Array("GET /page?b HTTP/1.1\r\nhost: x\r\n\r\n".utf8))
      try await eventually { String(decoding: peer.rawBytes, as: UTF8.self).hasSuffix("query b") }
      try await peer.send(raw: Array("GET /none HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n".utf8))
      #expect(await peer.isClosed())
      let text = String(decoding: peer.rawBytes, as: UTF8.self)
      #expect(text.hasPrefix("HTTP/1.1 200 OK\r\n"))
      #expect(text.contains("HTTP/1.1 404 Not Found\r\n"))
    }
  }

  @Test("Requests that come all at once over HTTP/1.1 are answered one by one, also those before the end of the input")
  func pipelining() async throws {
    try await TestServer.run { server in
      let peer = try await TestPeer.connect(server.address)
      let count = 1000
      let text = (0..<count).map { "GET /page?\($0) HTTP/1.1\r\nhost: x\r\n\r\n" }.joined()
      try await peer.send(raw: Array(text.utf8))
      try await peer.endInput()
      #expect(await peer.isClosed())
      let answers = String(decoding: peer.rawBytes, as: UTF8.self).split(separator: "\r\n\r\n").dropFirst()
      #expect(answers.count == count)
      for (number, answer) in answers.enumerated() { #expect(answer.hasPrefix("query \(number)")) }
    }
  }

  @Test("What one connection asks at once beyond its turn is answered, whole and in order, while others are served")
  func turns() async throws {
    try await TestServer.run { server in
      let busy = try await TestPeer.connect(server.address)
      let honest = try await TestPeer.connect(server.address)
      let count = 3000
      let body = (0..<count).flatMap { Blob([UInt8($0 & 255), UInt8($0 >> 8)]).frame }
      try await withThrowingTaskGroup(of: Answer.self) { group in
        for _ in 0..<20 { group.addTask { try await busy.call("/t.T/PingPong", body) } }
        for _ in 0..<50 { #expect(try await honest.call("/t.T/Echo", Blob([1]).frame).status == .ok) }
        for try await answer in group {
          #expect(answer.status == .ok)
          #expect(answer.messages == (0..<count).map { [UInt8($0 & 255), UInt8($0 >> 8)] })
        }
      }
      #expect(server.server.usage.bufferedBytes == 0)
      await busy.close()
      await honest.close()
    }
  }

  @Test("A drain answers what was begun, refuses new connections and ends")
  func drain() async throws {
    let server = try await TestServer.start()
    let peer = try await TestPeer.connect(server.address)
    let idle = try await TestPeer.connect(server.address)
    #expect(try await idle.call("/t.T/Echo", Blob([1]).frame).status == .ok)
    async let answer = peer.call("/t.T/Pause", Blob([9]).frame)
    try await eventually { server.counters.started.load(ordering: .relaxed) == 1 }
    await server.server.shutDown()
    #expect(try await answer.messages == [[9]])
    #expect(try await answer.status == .ok)
    #expect(peer.lastGoAway?.code == 0)
    #expect(server.server.connectionCount == 0)
    await #expect(throws: (any Error).self) { _ = try await TestPeer.connect(server.address) }
  }

  @Test("A drain does not wait longer than its grace")
  func drainGrace() async throws {
    let server = try await TestServer.start { $0.drainGrace = .milliseconds(100) }
    let peer = try await TestPeer.connect(server.address)
    async let answer = peer.call("/t.T/Wait", Blob([9]).frame)
    try await eventually { server.counters.started.load(ordering: .relaxed) == 1 }
    // The handler never returns of itself: without the grace this would not either.
    await server.server.shutDown()
    #expect(try await answer.status == nil)
    try await eventually { server.counters.cancelled.load(ordering: .relaxed) == 1 }
  }

  @Test("A stream of large answers goes on to its end over HTTP/1.1, where a write is over when it is made")
  func largeAnswersToPages() async throws {
    try await TestServer.run { server in
      let peer = try await TestPeer.connect(server.address)
      let head =
        "POST /t.T/Large HTTP/1.1\r\nhost: x\r\ncontent-type: application/grpc-web\r\ncontent-length: 5\r\n\r\n"
      try await peer.send(raw: Array(head.utf8) + [0, 0, 0, 0, 0])
      try await eventually { peer.rawBytes.count > 350_000 }
      let end = peer.rawBytes.suffix(100)
      #expect(String(decoding: end, as: UTF8.self).contains("grpc-status: 0"))
      await peer.close()
    }
  }

  @Test("R42: a drain waits no longer for a call of gRPC-Web over HTTP/1.1", arguments: ["/t.T/Listen", "/t.T/Wait"])
  func drainGraceOfPages(_ path: String) async throws {
    let server = try await TestServer.start { $0.drainGrace = .milliseconds(100) }
    let peer = try await TestPeer.connect(server.address)
    let head = "POST \(path) HTTP/1.1\r\nhost: x\r\ncontent-type: application/grpc-web\r\ncontent-length: 5\r\n\r\n"
    try await peer.send(raw: Array(head.utf8) + [0, 0, 0, 0, 0])
    try await eventually { server.server.usage.calls == 1 }
    await server.server.shutDown()
    #expect(await peer.isClosed())
  }

  @Test("Pings while an answer streams in are no abuse, pings on an idle connection are")
  func pings() async throws {
    try await TestServer.run { server in
      let peer = try await TestPeer.connect(server.address)
      let answer = try await peer.call("/t.T/Many", Blob([0]).frame, pingsOnData: true)
      #expect(answer.status == .ok)
      #expect(answer.messages.count == 100)
      #expect(peer.lastGoAway == nil)
      let ping: [UInt8] = [0, 0, 8, 6, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8]
      // The last of them may find the connection closed.
      for _ in 0..<4 { try? await peer.send(raw: ping) }
      #expect(await peer.isClosed())
      #expect(peer.lastGoAway?.code == HTTP2ErrorCode.enhanceYourCalm.rawValue)
    }
  }
}
