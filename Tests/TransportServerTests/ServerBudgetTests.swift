import Callers
import GRPC
import HTTP2
import NIOCore
import NIOPosix
import Testing
import TransportTestSupport

@testable import TransportServer

@Suite("A server's budget")
struct ServerBudgetTests {
  @Test("Connections beyond the limit are told so and closed, and a place that is free is taken again")
  func connections() async throws {
    try await TestServer.run({ $0.budget.connections = 3 }) { server in
      var peers: [TestPeer] = []
      for _ in 0..<3 {
        let peer = try await TestPeer.connect(server.address)
        #expect(try await peer.call("/t.T/Echo", Blob([1]).frame).status == .ok)
        peers.append(peer)
      }
      for _ in 0..<5 {
        let refused = try await TestPeer.connect(server.address)
        #expect(try await refused.call("/t.T/Echo", Blob([1]).frame).status == .resourceExhausted)
        #expect(await refused.isClosed(within: .seconds(60)))
        #expect(refused.lastGoAway?.code == 11)
      }
      for peer in peers { #expect(try await peer.call("/t.T/Echo", Blob([1]).frame).status == .ok) }
      #expect(server.server.usage.connections == 3)
      await peers.removeLast().close()
      try await eventually { server.server.usage.connections == 2 }
      let next = try await TestPeer.connect(server.address)
      #expect(try await next.call("/t.T/Echo", Blob([1]).frame).status == .ok)
    }
  }

  @Test("Calls beyond the limit are refused with the time to come back; probes and /healthz are answered")
  func calls() async throws {
    try await TestServer.run({ $0.budget.calls = 4 }) { server in
      let peer = try await TestPeer.connect(server.address)
      try await withThrowingTaskGroup(of: Answer.self) { group in
        for _ in 0..<4 {
          group.addTask { try await peer.call("/t.T/Wait", Blob([]).frame, cancelAfter: .seconds(4)) }
        }
        try await eventually { server.server.usage.calls == 4 }
        let refused = try await peer.call("/t.T/Wait", Blob([]).frame)
        #expect(refused.status == .resourceExhausted)
        #expect(refused.fields["grpc-status-details-bin"] == "T1ZFUkxPQURFRA")
        // Refused by its header block: what else it has to say need not come first.
        #expect(try await peer.call("/t.T/Wait", [], endStream: false).status == .resourceExhausted)
        #expect(try await peer.call("/t.T/PingPong", Blob([]).frame).status == .resourceExhausted)
        let web = [("content-type", "application/grpc-web")]
        let body = try await peer.call("/t.T/Echo", Blob([1]).frame, headers: web).body
        #expect(String(decoding: body, as: UTF8.self).contains("grpc-status: 8"))
        #expect(try await peer.call("/page", [], headers: [], method: "GET").httpStatus == "503")
        #expect(try await peer.call("/healthz", [], headers: [], method: "GET").httpStatus == "200")
        #expect(try await peer.call("/t.T/Probe", Blob([]).frame).status == .ok)
        try await group.waitForAll()
      }
      try await eventually { server.server.usage.calls == 0 }
      #expect(try await peer.call("/t.T/Echo", Blob([1]).frame).status == .ok)
      await peer.close()
    }
  }

  @Test("A stream that has the last place runs when its first message comes")
  func lastPlace() async throws {
    try await TestServer.run({ $0.budget.calls = 1 }) { server in
      let peer = try await TestPeer.connect(server.address)
      #expect(try await peer.call("/t.T/Sum", Blob([1, 2]).frame).messages == [Array("2".utf8)])
      await peer.close()
    }
  }

  @Test("What has come of a message counts also when it came behind a whole one")
  func behindMessages() async throws {
    try await TestServer.run { server in
      let peer = try await TestPeer.connect(server.address)
      // One frame of HTTP/2, with a part of a message of 60,000 bytes.
      let body = Blob([]).frame + [0, 0, 0, 0xea, 0x60] + [UInt8](repeating: 1, count: 15_000)
      try await withThrowingTaskGroup(of: Void.self) { group in
        for _ in 0..<4 {
          group.addTask { _ = try await peer.call("/t.T/PingPong", body, endStream: false, cancelAfter: .seconds(2)) }
        }
        try await eventually { server.server.usage.bufferedBytes > 3 * 15_000 }
        try await group.waitForAll()
      }
      try await eventually { server.server.usage.bufferedBytes == 0 && server.server.usage.calls == 0 }
      await peer.close()
    }
  }

  @Test("Calls that do not wait are never counted, and those that do are given back however they end")
  func countedOnce() async throws {
    try await TestServer.run { server in
      let peer = try await TestPeer.connect(server.address)
      for path in ["/t.T/Echo", "/t.T/Yield", "/t.T/Fail", "/t.T/Many", "/t.T/Sum", "/t.T/PingPong"] {
        _ = try await peer.call(path, Blob([1]).frame)
      }
      async let cancelled = peer.call("/t.T/Wait", Blob([]).frame, cancelAfter: .milliseconds(50))
      _ = try await cancelled
      let timeout = [("content-type", "application/grpc"), ("grpc-timeout", "50m")]
      _ = try await peer.call("/t.T/Wait", Blob([]).frame, headers: timeout)
      try await eventually { server.server.usage.calls == 0 }
      async let gone = peer.call("/t.T/Wait", Blob([]).frame)
      try await eventually { server.server.usage.calls == 1 }
      await peer.close()
      _ = try? await gone
      try await eventually { server.server.usage.calls == 0 && server.server.usage.bufferedBytes == 0 }
    }
  }

  @Test("Answers that nobody takes count, and end the patience with that connection and with all of them")
  func bufferedBytes() async throws {
    let limits = { (configuration: inout RPCServer.Configuration) in
      configuration.budget.connectionBytes = 400_000
      configuration.budget.bufferedBytes = 1_000_000
    }
    try await TestServer.run(limits) { server in
      // A window of zero: nothing of an answer leaves.
      let closed = try await TestPeer.connect(server.address, initialWindow: 0)
      async let answers = withThrowingTaskGroup(of: Answer.self) { group in
        for _ in 0..<20 {
          let blob = Blob([UInt8](repeating: 1, count: 60_000))
          group.addTask { try await closed.call("/t.T/Echo", blob.frame, cancelAfter: .seconds(4)) }
        }
        var refused = 0
        for try await answer in group where answer.status == .resourceExhausted { refused += 1 }
        return refused
      }
      try await eventually { server.server.usage.bufferedBytes > 300_000 }
      let honest = try await TestPeer.connect(server.address)
      #expect(try await honest.call("/t.T/Echo", Blob([1]).frame).status == .ok)
      #expect(server.server.usage.bufferedBytes < 600_000)
      #expect(try await answers > 5)
      try await eventually { server.server.usage.bufferedBytes == 0 }
      await closed.close()
      await honest.close()
    }
  }

  @Test(
    "A request that is not whole counts, and is refused where its connection has no room",
    arguments: ["application/grpc", "application/grpc-web", "text/plain"]
  )
  func unfinishedRequests(contentType: String) async throws {
    let limits = { (configuration: inout RPCServer.Configuration) in configuration.budget.connectionBytes = 130_000 }
    try await TestServer.run(limits) { server in
      let peer = try await TestPeer.connect(server.address)
      let path = contentType.hasPrefix("application") ? "/t.T/Echo" : "/form"
      // Granted again as it comes, and kept all the same.
      let part = Array(Blob([UInt8](repeating: 1, count: 60_000)).frame.prefix(50_000))
      @Sendable func unfinished(_ path: String, for duration: TimeAmount) async throws -> Answer {
        let headers = [("content-type", contentType)]
        return try await peer.call(path, part, headers: headers, endStream: false, cancelAfter: duration)
      }
      // Long enough for all to be there together on a busy machine.
      async let first = unfinished(path, for: .seconds(8))
      async let second = unfinished(path, for: .seconds(8))
      // What a connection holds is told in steps.
      try await eventually { server.server.usage.bufferedBytes >= 100_000 - Limits.budgetStep }
      let refused = try await unfinished(path, for: .seconds(3))
      if path == "/form" {
        #expect(refused.httpStatus == "503")
      } else {
        let text = String(decoding: refused.body, as: UTF8.self)
        #expect(refused.status == .resourceExhausted || text.contains("grpc-status: 8"))
      }
      // Those that were begun before were cancelled by their client.
      #expect(try await first.fields.isEmpty)
      #expect(try await second.fields.isEmpty)
      try await eventually { server.server.usage.bufferedBytes == 0 }
      #expect(try await peer.call("/t.T/Echo", Blob([1]).frame).status == .ok)
      await peer.close()
    }
  }

  @Test("Requests of HTTP/1.1 count while they come and wait, and are refused where there is no room")
  func unfinishedRequestsOfHTTP1() async throws {
    let limits = { (configuration: inout RPCServer.Configuration) in
      configuration.budget.connectionBytes = 500_000
      configuration.budget.bufferedBytes = 500_000
    }
    try await TestServer.run(limits) { server in
      func head(_ path: String, _ contentType: String, _ count: Int) -> [UInt8] {
        Array(
          "POST \(path) HTTP/1.1\r\nhost: x\r\ncontent-type: \(contentType)\r\ncontent-length: \(count)\r\n\r\n".utf8)
      }
      let message = Blob([UInt8](repeating: 1, count: 60_000)).frame
      var peers: [TestPeer] = []
      // Each connection tells of what it holds in steps, and of a read while it lasts: how many fill the room depends on
      // how their bytes come, and there may be room again when they are all there.
      func fill() async throws {
        for _ in 0..<500 where server.server.usage.bufferedBytes < 500_000 {
          let peer = try await TestPeer.connect(server.address)
          let isWeb = peers.count % 2 == 0
          let begin =
            isWeb ? head("/t.T/Echo", "application/grpc-web", message.count) : head("/form", "x/y", message.count)
          try await peer.send(raw: begin + message.prefix(50_000))
          peers.append(peer)
          try await Task.sleep(for: .milliseconds(20))
        }
      }
      func answer(_ request: [UInt8], until end: String) async throws -> String {
        try await fill()
        let late = try await TestPeer.connect(server.address)
        try await late.send(raw: request)
        try await eventually { String(decoding: late.rawBytes, as: UTF8.self).contains(end) }
        await late.close()
        return String(decoding: late.rawBytes, as: UTF8.self)
      }
      var (form, web) = ("", "")
      for _ in 0..<5 where !form.hasPrefix("HTTP/1.1 503 ") {
        form = try await answer(head("/form", "x/y", 4) + [1, 2, 3, 4], until: "HTTP/1.1 ")
      }
      for _ in 0..<5 where !web.contains("grpc-status: 8") {
        web = try await answer(
          head("/t.T/Echo", "application/grpc-web", 6) + Blob([1]).frame, until: "grpc-status: ")
      }
      #expect(form.hasPrefix("HTTP/1.1 503 ") && web.contains("grpc-status: 8"), "\(form) \(web)")
      #expect(peers.count >= 5)
      for peer in peers { await peer.close() }
      try await eventually { server.server.usage.bufferedBytes == 0 }
      let next = try await TestPeer.connect(server.address)
      try await next.send(raw: head("/form", "x/y", 4) + [1, 2, 3, 4])
      try await eventually { String(decoding: next.rawBytes, as: UTF8.self).hasPrefix("HTTP/1.1 200 ") }
      await next.close()
    }
  }

  @Test("Answers that many connections do not take, each a little, are too many together")
  func bufferedBytesOfAll() async throws {
    let limits = { (configuration: inout RPCServer.Configuration) in
      configuration.budget.connectionBytes = 400_000
      configuration.budget.bufferedBytes = 1_000_000
    }
    try await TestServer.run(limits) { server in
      let honest = try await TestPeer.connect(server.address)
      var closed: [TestPeer] = []
      for _ in 0..<5 { closed.append(try await TestPeer.connect(server.address, initialWindow: 0)) }
      try await withThrowingTaskGroup(of: Void.self) { [closed] group in
        for peer in closed {
          // Short requests, so that only answers count.
          for _ in 0..<40 { group.addTask { _ = try? await peer.call("/t.T/Many", Blob([0]).frame) } }
        }
        try await eventually { server.server.usage.bufferedBytes >= 1_000_000 }
        #expect(try await honest.call("/t.T/Echo", Blob([1]).frame).status == .resourceExhausted)
        for peer in closed { await peer.close() }
        try await group.waitForAll()
      }
      try await eventually { server.server.usage.bufferedBytes == 0 }
      #expect(try await honest.call("/t.T/Echo", Blob([1]).frame).status == .ok)
      await honest.close()
    }
  }

  @Test("Who comes to a share while others give up theirs leaves room for who has little", arguments: [true, false])
  func roomOfFew(isOfCalls: Bool) {
    var bounds = ServerBudget.Bounds()
    (bounds.connectionBytes, bounds.bufferedBytes, bounds.calls) = (1 << 20, 64 << 20, 8000)
    let budget = ServerBudget(bounds)
    let (capacity, ahead) = isOfCalls ? (bounds.calls, Limits.callsAhead) : (bounds.bufferedBytes, Limits.bytesAhead)
    let beyond = capacity / 4 + ahead
    var total = 0
    func hold(_ amount: Int, _ account: SourceAccount) {
      total += amount
      if isOfCalls { budget.callsWait(amount, account) } else { budget.buffered(amount, account) }
    }
    let accounts = (1...3).map { budget.sources.account(of: NetworkAddress("192.0.2.\($0)")) }
    let (large, middling, little) = (accounts[0], accounts[1], accounts[2])
    hold(1, little)
    hold(capacity / 4, middling)
    hold(capacity + beyond / 2 - 1 - total, large)
    #expect(accounts.map(budget.hasRoom) == [false, true, true])
    hold(1, large)
    #expect(accounts.map(budget.hasRoom) == [false, false, true])
    hold(beyond / 2 - 1, large)
    #expect(accounts.map(budget.hasRoom) == [false, false, true])
    hold(1, large)
    #expect(accounts.map(budget.hasRoom) == [false, false, false])
  }

  @Test("However many share, one call and what is told of in one step are little")
  func smallestShare() {
    var bounds = ServerBudget.Bounds()
    (bounds.connectionBytes, bounds.bufferedBytes, bounds.calls) = (8, 8, 8)
    let budget = ServerBudget(bounds)
    // A share of two calls and as many bytes, and more of each than half of what may come beyond.
    let accounts = (1...3).map { budget.sources.account(of: NetworkAddress("192.0.2.\($0)")) }
    for account in accounts {
      budget.callsWait((bounds.calls + Limits.callsAhead) / 4, account)
      budget.buffered((bounds.bufferedBytes + Limits.bytesAhead) / 4, account)
    }
    let newcomer = budget.sources.account(of: NetworkAddress("198.51.100.1"))
    #expect(budget.hasRoom(for: newcomer))
    budget.callsWait(1, newcomer)
    budget.buffered(1, newcomer)
    #expect(budget.hasRoom(for: newcomer))
    #expect(accounts.allSatisfy { !budget.hasRoom(for: $0) })
  }

  @Test("A peer that takes none of its answers from the socket is given up")
  func stalledWrite() async throws {
    try await TestServer.run({ $0.stalledWriteTimeout = .milliseconds(300) }) { server in
      let deaf = try await ClientBootstrap(group: MultiThreadedEventLoopGroup.singleton)
        .channelOption(.autoRead, value: false)
        .channelOption(.socketOption(.so_rcvbuf), value: 4096)
        .connect(to: server.address).get()
      try await eventually { server.server.usage.connections == 1 }
      // 30 MB of answers: more than the sockets hold.
      try await deaf.writeAndFlush(ByteBuffer(bytes: SilentPeer.call(path: "/t.T/Many", calls: 60)))
      try await eventually { server.counters.started.load(ordering: .relaxed) > 0 }
      try await eventually { server.server.usage.connections == 0 }
      try await eventually { server.server.usage.bufferedBytes == 0 && server.server.usage.calls == 0 }
      try? await deaf.close()
    }
  }

  @Test("A peer of HTTP/1.1 that takes none of its answers from the socket is given up as well")
  func stalledPages() async throws {
    try await TestServer.run({ $0.stalledWriteTimeout = .milliseconds(300) }) { server in
      let deaf = try await ClientBootstrap(group: MultiThreadedEventLoopGroup.singleton)
        .channelOption(.autoRead, value: false)
        .channelOption(.socketOption(.so_rcvbuf), value: 4096)
        .connect(to: server.address).get()
      // Each is sent back: 30 MB, more than the sockets hold.
      let head = "POST /form HTTP/1.1\r\nhost: x\r\ncontent-length: 60000\r\n\r\n"
      let form = head + String(repeating: "x", count: 60_000)
      deaf.writeAndFlush(ByteBuffer(string: String(repeating: form, count: 500)), promise: nil)
      try await eventually { server.server.usage.bufferedBytes > 0 }
      try await eventually { server.server.usage.connections == 0 }
      try await eventually { server.server.usage.bufferedBytes == 0 && server.server.usage.calls == 0 }
      try? await deaf.close()
    }
  }

  @Test("A silent peer with a call open is asked for a sign of life and given up; one that answers is kept")
  func keepalive() async throws {
    let quick = { (configuration: inout RPCServer.Configuration) in
      configuration.keepalive = (.milliseconds(200), .seconds(2))
    }
    try await TestServer.run(quick) { server in
      let lively = try await TestPeer.connect(server.address)
      async let waiting = lively.call("/t.T/Wait", Blob([]).frame, cancelAfter: .seconds(4))
      // The same call by hand, from a peer that never answers a PING.
      let silent = try await TestPeer.connect(server.address)
      let start = ContinuousClock.now
      try await silent.send(raw: SilentPeer.call(path: "/t.T/Wait"))
      #expect(await silent.isClosed(within: .seconds(30)))
      #expect(start.duration(to: .now) > .seconds(2))
      // Its call was cancelled by the client, not by the server's impatience.
      #expect(try await waiting.closed == 8)
      #expect(try await lively.call("/t.T/Echo", Blob([1]).frame).status == .ok)
      await lively.close()
    }
  }
}

/// The bytes of a client that says one thing and then nothing.
private enum SilentPeer {
  /// - Parameter calls: how many of them, each on a stream of its own. The windows are as wide as can be.
  static func call(path: String, calls: Int32 = 1) -> [UInt8] {
    var block: [UInt8] = []
    // RFC 7541 §6.2.2: literals that are not indexed.
    for (name, value) in [
      (":method", "POST"), (":scheme", "http"), (":path", path), (":authority", "localhost"), ("te", "trailers"),
      ("content-type", "application/grpc"),
    ] {
      block += [0, UInt8(name.utf8.count)] + Array(name.utf8) + [UInt8(value.utf8.count)] + Array(value.utf8)
    }
    var bytes = Array("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".utf8)
    // SETTINGS with INITIAL_WINDOW_SIZE, the acknowledgement of the server's, WINDOW_UPDATE.
    bytes += [0, 0, 6, 4, 0, 0, 0, 0, 0] + [0, 4, 0x7f, 0xff, 0xff, 0xff]
    bytes += [0, 0, 0, 4, 1, 0, 0, 0, 0]
    bytes += [0, 0, 4, 8, 0, 0, 0, 0, 0] + [0x7f, 0, 0, 0]
    for number in 0..<calls {
      let stream = UInt8(2 * number + 1)
      bytes += [0, 0, UInt8(block.count), 1, 4, 0, 0, 0, stream] + block
      bytes += [0, 0, 5, 0, 1, 0, 0, 0, stream] + [0, 0, 0, 0, 0]
    }
    return bytes
  }
}
