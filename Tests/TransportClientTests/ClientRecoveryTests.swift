import GRPC
import HTTP2
import NIOCore
import NIOEmbedded
import NIOPosix
import Synchronization
import Testing
import TransportTestSupport

@testable import TransportClient

@Suite("A client channel whose server misbehaves")
struct ClientRecoveryTests {
  static let method = RPCMethod(path: "/t.T/Any", kind: .unary)
  static let streamMethod = RPCMethod(path: "/t.T/Any", kind: .clientStreaming)

  func makeChannel(
    _ target: ChannelTarget,
    _ adjust: (inout ClientChannel.Configuration) -> Void = { _ in }
  ) -> ClientChannel {
    var configuration = ClientChannel.Configuration(target: target) { _ in nil }
    // Short waits: what is tested is their order, not their length.
    configuration.backoff = Backoff(initial: .milliseconds(20), multiplier: 1.6, maximum: .milliseconds(100))
    configuration.retry?.backoff = Backoff(initial: .milliseconds(5), multiplier: 2, maximum: .milliseconds(20))
    configuration.random = { 0.5 }
    adjust(&configuration)
    return ClientChannel(configuration)
  }

  func call(_ channel: ClientChannel, _ options: CallOptions = CallOptions()) async throws -> Blob {
    try await channel.unary(Self.method, Blob([1, 2]), options: options)
  }

  func expect(_ expected: Blob, from response: Blob, sourceLocation: SourceLocation = #_sourceLocation) {
    #expect(response == expected, sourceLocation: sourceLocation)
  }

  @Test("a stream refused unseen is repeated without the caller's knowing")
  func refused() async throws {
    try await ScriptedPeer.run { exchange in
      if exchange.number == 1 { exchange.reset(.refusedStream) } else { exchange.answer(exchange.body) }
    } _: { peer, target in
      let channel = makeChannel(target) { $0.retry = nil }
      try await expect(Blob([0, 0, 0, 0, 2, 1, 2]), from: call(channel))
      #expect(peer.requests.load(ordering: .relaxed) == 2)
      await channel.close(grace: .zero)
    }
  }

  @Test("a connection without calls is closed, and the next call opens another")
  func idle() async throws {
    try await TestServer.run { server in
      let port = try #require(server.address.port)
      let channel = makeChannel(ChannelTarget(host: "127.0.0.1", port: port)) { $0.idleTimeout = .seconds(1) }
      let wait = RPCMethod(path: "/t.T/Pause", kind: .unary)
      for _ in 0..<2 {
        // Longer in all than the timeout: what counts is the time without a call.
        for _ in 0..<6 {
          let response: Blob = try await channel.unary(wait, Blob([1]), options: CallOptions())
          #expect(response == Blob([1]))
          #expect(server.server.usage.connections == 1)
        }
        try await eventually { server.server.usage.connections == 0 }
      }
      await channel.close(grace: .zero)
    }
  }

  @Test("a request stream refused unseen is sent again from its beginning")
  func refusedStream() async throws {
    try await ScriptedPeer.run { exchange in
      if exchange.number == 1 { exchange.reset(.refusedStream) } else { exchange.answer(exchange.body) }
    } _: { _, target in
      let channel = makeChannel(target) { $0.retry = nil }
      let response: Blob = try await channel.clientStreaming(Self.streamMethod, options: CallOptions()) {
        (writer: RequestWriter<Blob>) async throws(RPCError) in
        for value: UInt8 in [7, 8] { try await writer.write(Blob([value])) }
      }
      #expect(response == Blob([0, 0, 0, 0, 1, 7, 0, 0, 0, 0, 1, 8]))
      await channel.close(grace: .zero)
    }
  }

  @Test("UNAVAILABLE without an answer is retried, and says how often")
  func retries() async throws {
    let attempts = Mutex<[String?]>([])
    try await ScriptedPeer.run { exchange in
      attempts.withLock { $0.append(exchange.fields["grpc-previous-rpc-attempts"]) }
      if exchange.number < 3 { exchange.fail(14, "busy") } else { exchange.answer([1]) }
    } _: { _, target in
      let channel = makeChannel(target)
      try await expect(Blob([1]), from: call(channel))
      #expect(attempts.withLock { $0 } == [nil, "1", "2"])
      await channel.close(grace: .zero)
    }
  }

  @Test("retries end with the policy's attempts, and the last error is the call's")
  func attemptsEnd() async throws {
    try await ScriptedPeer.run {
      $0.fail(14, "busy \($0.number)")
    } _: { peer, target in
      let channel = makeChannel(target) { $0.retry?.maxAttempts = 3 }
      let error = await failure(channel, Self.method, Blob([]), options: CallOptions())
      #expect(error == RPCError(.unavailable, "busy 3"))
      await channel.close(grace: .zero)
    }
  }

  @Test("other codes are not retried, nor UNAVAILABLE after the answer began")
  func notRetried() async throws {
    try await ScriptedPeer.run { exchange in
      switch exchange.number {
      case 1: exchange.fail(13)
      default:
        exchange.respond([":status": "200", "content-type": "application/grpc"])
        exchange.finish(["grpc-status": "14"])
      }
    } _: { peer, target in
      let channel = makeChannel(target)
      #expect(await failure(channel, Self.method, Blob([]), options: CallOptions())?.code == .internal)
      #expect(await failure(channel, Self.method, Blob([]), options: CallOptions())?.code == .unavailable)
      #expect(peer.requests.load(ordering: .relaxed) == 2)
      await channel.close(grace: .zero)
    }
  }

  @Test("pushback decides: a wait is kept, a refusal and nonsense end it", arguments: ["300", "-1", "soon"])
  func pushback(value: String) async throws {
    try await ScriptedPeer.run { exchange in
      if exchange.number == 1 { exchange.fail(14, "later", pushback: value) } else { exchange.answer([1]) }
    } _: { peer, target in
      let channel = makeChannel(target)
      let start = ContinuousClock.now
      if value == "300" {
        try await expect(Blob([1]), from: call(channel))
        #expect(ContinuousClock.now - start >= .milliseconds(300))
      } else {
        #expect(await failure(channel, Self.method, Blob([]), options: CallOptions())?.message == "later")
        #expect(peer.requests.load(ordering: .relaxed) == 1)
      }
      await channel.close(grace: .zero)
    }
  }

  @Test("the budget ends retries when most calls fail")
  func throttle() async throws {
    try await ScriptedPeer.run {
      $0.fail(14)
    } _: { peer, target in
      let channel = makeChannel(target) { $0.retryThrottle = RetryThrottle(maximum: 4, ratio: 0.1) }
      for _ in 0..<10 { _ = await failure(channel, Self.method, Blob([]), options: CallOptions()) }
      // The first call fails twice (3 and 2 tokens left, 2 is half); then each call is tried once.
      #expect(peer.requests.load(ordering: .relaxed) == 11)
      await channel.close(grace: .zero)
    }
  }

  @Test("GOAWAY: the call it covers ends well, the next one takes a new connection")
  func goAway() async throws {
    try await ScriptedPeer.run { exchange in
      if exchange.number == 1 { exchange.connection.goAway() }
      exchange.answer([UInt8(exchange.connectionNumber)])
    } _: { peer, target in
      let channel = makeChannel(target) { $0.retry = nil }
      for _ in 0..<20 { _ = try await call(channel) }
      try await expect(Blob([2]), from: call(channel))
      #expect(peer.connections.load(ordering: .relaxed) == 2)
      await channel.close(grace: .zero)
    }
  }

  @Test("a broken connection fails the call in doubt; a harmless one is repeated", arguments: [false, true])
  func lost(isIdempotent: Bool) async throws {
    try await ScriptedPeer.run { exchange in
      if exchange.number == 1 { exchange.connection.close() } else { exchange.answer([1]) }
    } _: { peer, target in
      let channel = makeChannel(target)
      let options = CallOptions(isIdempotent: isIdempotent)
      if isIdempotent {
        try await expect(Blob([1]), from: call(channel, options))
      } else {
        #expect(await failure(channel, Self.method, Blob([]), options: options)?.code == .unavailable)
        try await expect(Blob([1]), from: call(channel))
      }
      #expect(peer.requests.load(ordering: .relaxed) == 2)
      await channel.close(grace: .zero)
    }
  }

  @Test(
    "HTTP errors without gRPC are mapped",
    arguments: [
      ("400", StatusCode.internal), ("401", .unauthenticated), ("403", .permissionDenied), ("404", .unimplemented),
      ("429", .unavailable), ("503", .unavailable), ("500", .unknown), ("200", .unknown),
    ]
  )
  func http(status: String, code: StatusCode) async throws {
    try await ScriptedPeer.run { exchange in
      var fields = HTTP2FieldList()
      fields.add(":status", status)
      fields.add("content-type", "text/html")
      exchange.connection.session?.respond(exchange.stream, fields, endStream: true)
    } _: { _, target in
      let channel = makeChannel(target) { $0.retry = nil }
      #expect(await failure(channel, Self.method, Blob([]), options: CallOptions())?.code == code)
      await channel.close(grace: .zero)
    }
  }

  @Test("answers that break the protocol are errors of the call, not of the process", arguments: 0..<6)
  func broken(kind: Int) async throws {
    try await ScriptedPeer.run { exchange in
      if kind != 0 { exchange.respond([":status": "200", "content-type": "application/grpc"]) }
      switch kind {
      case 0: exchange.respond([":status": "200", "content-type": "application/grpc"], endStream: true)
      case 1: exchange.finish(["grpc-status": "0"])
      case 2:
        exchange.write([0, 0, 0, 0, 9, 1])
        exchange.finish(["grpc-status": "0"])
      case 3:
        exchange.write(Blob([1]).frame + Blob([2]).frame)
        exchange.finish(["grpc-status": "0"])
      case 4: exchange.write([0, 0xff, 0xff, 0xff, 0xff])
      default: exchange.write([7, 0, 0, 0, 0])
      }
    } _: { _, target in
      let channel = makeChannel(target) { $0.retry = nil }
      let code = await failure(channel, Self.method, Blob([]), options: CallOptions(timeout: .seconds(60)))?.code
      #expect(code == [.unknown, .internal, .internal, .internal, .resourceExhausted, .internal][kind])
      await channel.close(grace: .zero)
    }
  }

  @Test("calls wait for a stream and leave the queue at their deadline")
  func queue() async throws {
    try await ScriptedPeer.run(concurrentStreams: 1) { exchange in
      if exchange.number > 1 { exchange.answer([2]) }
    } _: { peer, target in
      let channel = makeChannel(target)
      // The server announces one stream with its SETTINGS, which come before the first request is sent.
      let first = Task { await failure(channel, Self.method, Blob([]), options: CallOptions()) }
      try await eventually { peer.requests.load(ordering: .relaxed) == 1 }
      let error = await failure(channel, Self.method, Blob([]), options: CallOptions(timeout: .milliseconds(100)))
      #expect(error?.code == .deadlineExceeded && peer.requests.load(ordering: .relaxed) == 1)
      let second = Task { try await call(channel) }
      first.cancel()
      #expect(await first.value?.code == .cancelled)
      try await expect(Blob([2]), from: second.value)
      #expect(peer.cancelled.load(ordering: .relaxed) == 1)
      await channel.close(grace: .zero)
    }
  }

  @Test("max_streams: ten calls at once to a server of one stream are made one after another, on one connection")
  func oneStream() async throws {
    // A second stream beside the first would end the connection: the server's session refuses it.
    try await ScriptedPeer.run(concurrentStreams: 1) {
      $0.answer([UInt8($0.number)])
    } _: { peer, target in
      let channel = makeChannel(target) { $0.retry = nil }
      try await expect(Blob([1]), from: call(channel))
      let answers = await withTaskGroup(of: Blob?.self) { group in
        for _ in 0..<10 { group.addTask { try? await call(channel) } }
        return await group.reduce(into: Set<UInt8?>()) { $0.insert($1?.bytes.first) }
      }
      #expect(answers == Set((2...11).map { UInt8?($0) }))
      #expect(peer.connections.load(ordering: .relaxed) == 1)
      await channel.close(grace: .zero)
    }
  }

  @Test("calls go to the addresses in turn, and to the one that is left")
  func roundRobin() async throws {
    try await ScriptedPeer.run {
      $0.answer([1])
    } _: { first, one in
      try await ScriptedPeer.run {
        $0.answer([2])
      } _: { second, two in
        let channel = makeChannel(try ChannelTarget("ipv4:\(one.endpoint.text),\(two.endpoint.text)"))
        try await waitUntilAnswered(channel, by: [1, 2])
        let before = first.requests.load(ordering: .relaxed)
        for _ in 0..<10 { _ = try await call(channel) }
        #expect(first.requests.load(ordering: .relaxed) - before == 5)
        await second.stop()
        // Until the channel has seen that end, a call may still be lost with the connection.
        for _ in 0..<20 { _ = try? await call(channel) }
        try await Task.sleep(for: .milliseconds(200))
        for _ in 0..<10 { #expect(try await call(channel) == Blob([1])) }
        await channel.close(grace: .zero)
      }
    }
  }

  /// Calls until each of `peers` has answered: both connections are up.
  func waitUntilAnswered(_ channel: ClientChannel, by peers: Set<UInt8>) async throws {
    var seen: Set<UInt8> = []
    for _ in 0..<10_000 where seen != peers {
      seen.insert(try await call(channel).bytes[0])
      try await Task.sleep(for: .milliseconds(2))
    }
    #expect(seen == peers)
  }

  @Test("without a server a call fails at once, or waits for one when it says so, and the server's return is noticed")
  func comesBack() async throws {
    try await ScriptedPeer.run {
      $0.answer([1])
    } _: { peer, target in
      let channel = makeChannel(target)
      try await expect(Blob([1]), from: call(channel))
      await peer.stop()
      // Until the channel has seen the end of the old connection and has tried for a new one.
      var error: RPCError?
      let end = ContinuousClock.now + .seconds(60)
      while error?.message.contains("cannot connect") != true, ContinuousClock.now < end {
        error = await failure(channel, Self.method, Blob([]), options: CallOptions())
        try await Task.sleep(for: .milliseconds(5))
      }
      #expect(error?.code == .unavailable && error?.message.contains("cannot connect") == true)
      let late = await failure(
        channel,
        Self.method,
        Blob([]),
        options: CallOptions(timeout: .milliseconds(150), waitForReady: true)
      )
      #expect(late?.code == .deadlineExceeded)
      let patient = Task { try await call(channel, CallOptions(timeout: .seconds(60), waitForReady: true)) }
      try await Task.sleep(for: .milliseconds(100))
      try await peer.listen(port: target.endpoint.port)
      try await expect(Blob([1]), from: patient.value)
      await channel.close(grace: .zero)
    }
  }

  @Test("a peer that never says SETTINGS is no connection")
  func silentPeer() async throws {
    try await ScriptedPeer.run {
      $0.answer([1])
    } _: { peer, target in
      peer.answers.store(false, ordering: .relaxed)
      let channel = makeChannel(target) { $0.connectTimeout = .milliseconds(100) }
      let error = await failure(channel, Self.method, Blob([]), options: CallOptions())
      #expect(error?.code == .unavailable && error?.message.contains("too long") == true)
      await channel.close(grace: .zero)
    }
  }

  @Test("a server that takes connections and turns them away is left in peace, and found when it serves")
  func turnedAway() async throws {
    try await ScriptedPeer.run {
      $0.answer([1])
    } _: { peer, target in
      peer.turnsAway.store(true, ordering: .relaxed)
      let channel = makeChannel(target) {
        $0.retry = nil
        $0.backoff = Backoff(initial: .seconds(3600), multiplier: 1, maximum: .seconds(3600))
      }
      let options = CallOptions(timeout: .seconds(10))
      for _ in 0..<3 {
        let error = await failure(channel, Self.method, Blob([]), options: options)
        #expect(error == RPCError(.unavailable, "the server is going away"))
      }
      // Once at once, as another server may be in its place; then not before the pause is over.
      #expect(peer.connections.load(ordering: .relaxed) == 2)
      await channel.close(grace: .zero)

      let other = makeChannel(target)
      _ = await failure(other, Self.method, Blob([]), options: options)
      peer.turnsAway.store(false, ordering: .relaxed)
      try await expect(Blob([1]), from: call(other, CallOptions(timeout: .seconds(10), waitForReady: true)))
      await other.close(grace: .zero)
    }
  }

  @Test("a connection that is closed before its channel is there closes the channel")
  func closedEarly() throws {
    final class Nobody: ClientConnection.Owner {
      func connectionOpened(_ connection: ClientConnection) {}
      func connectionDraining(_ connection: ClientConnection, _ error: RPCError) {}
      func connectionClosed(_ connection: ClientConnection, _ error: RPCError) {}
      func connectionPingedTooOften(_ connection: ClientConnection) {}
    }
    let channel = EmbeddedChannel()
    let owner = Nobody()
    let connection = ClientConnection(
      eventLoop: channel.eventLoop,
      settings: ClientConnection.Settings(
        authority: "t", isSecure: false, userAgent: "t", messageLimit: 1024, decodeDetails: { _ in nil },
        keepalive: nil, connectTimeout: .seconds(20), idleTimeout: .seconds(20)),
      owner: owner
    )
    connection.close(RPCError(.unavailable, "the channel was closed"))
    try channel.connect(to: SocketAddress(ipAddress: "127.0.0.1", port: 1)).wait()
    try channel.pipeline.syncOperations.addHandler(connection)
    #expect(!channel.isActive)
    #expect(try channel.readOutbound(as: ByteBuffer.self) == nil)
    _ = try? channel.finish()
  }

  @Test("a name that does not resolve is UNAVAILABLE, and is looked up again")
  func resolution() async throws {
    struct Resolver: AddressResolver {
      let target: ChannelTarget
      let lookUps = Counter()
      func resolve(_: ChannelTarget) async throws(AddressResolutionError) -> [SocketAddress] {
        if lookUps.value.wrappingAdd(1, ordering: .relaxed).newValue == 1 {
          throw AddressResolutionError(reason: "no such host")
        }
        return try await SystemAddressResolver().resolve(target)
      }
    }
    try await ScriptedPeer.run {
      $0.answer([1])
    } _: { _, target in
      let channel = makeChannel(ChannelTarget(host: "name.test", port: 1)) { $0.resolver = Resolver(target: target) }
      let error = await failure(channel, Self.method, Blob([]), options: CallOptions())
      #expect(error == RPCError(.unavailable, "cannot resolve: no such host"))
      try await expect(Blob([1]), from: call(channel, CallOptions(timeout: .seconds(60), waitForReady: true)))
      await channel.close(grace: .zero)
    }
  }

  final class Counter: Sendable {
    let value = Atomic<Int>(0)
  }

  @Test("a server that falls silent is given up by keepalive, and the next call finds the one that came back")
  func keepalive() async throws {
    try await ScriptedPeer.run { exchange in
      // The first connection hangs as behind a partition: nothing more comes from it, no answer to a PING either.
      if exchange.connectionNumber > 1 { return exchange.answer([1]) }
      exchange.connection.peer.answers.store(false, ordering: .relaxed)
    } _: { peer, target in
      var policy = KeepalivePolicy(interval: .seconds(10), timeout: .seconds(1))
      // Below what a configuration may ask for, so that the test is short.
      policy.interval = .milliseconds(50)
      let channel = makeChannel(target) { $0.keepalive = policy }
      let started = ContinuousClock.now
      let error = await failure(channel, Self.method, Blob([]), options: CallOptions())
      #expect(error == RPCError(.unavailable, "the server gave no sign of life"))
      #expect(started.duration(to: .now) < .seconds(10))
      peer.answers.store(true, ordering: .relaxed)
      try await expect(Blob([1]), from: call(channel))
      await channel.close(grace: .zero)
    }
  }

  @Test("twenty restarts of a server cost a client that retries and waits not one call")
  func restarts() async throws {
    var server = try await TestServer.start()
    let port = try #require(server.address.port)
    let channel = makeChannel(ChannelTarget(host: "127.0.0.1", port: port))
    let method = RPCMethod(path: "/t.T/Yield", kind: .unary)
    let (answered, isOver) = (Counter(), Counter())
    let callers = (0..<4).map { number in
      Task {
        while isOver.value.load(ordering: .relaxed) == 0 {
          let blob = Blob([UInt8(number)])
          let options = CallOptions(timeout: .seconds(60), waitForReady: true, isIdempotent: true)
          let response: Blob = try await channel.unary(method, blob, options: options)
          #expect(response == blob)
          answered.value.add(1, ordering: .relaxed)
        }
      }
    }
    for _ in 0..<20 {
      let before = answered.value.load(ordering: .relaxed)
      try await eventually { answered.value.load(ordering: .relaxed) >= before + 8 }
      await server.server.shutDown()
      server = try await TestServer.start { $0.port = port }
    }
    isOver.value.store(1, ordering: .relaxed)
    for caller in callers { try await caller.value }
    await channel.close()
    await server.server.shutDown()
  }

  @Test("twenty rolling restarts of two servers, beside dead addresses, cost callers that do not wait not one call")
  func rollingRestarts() async throws {
    var servers = [try await TestServer.start(), try await TestServer.start()]
    let ports = try servers.map { try #require($0.address.port) }
    // Nobody listens on port 1.
    let target = try ChannelTarget("ipv4:[::1]:1,127.0.0.1:1,\(ports.map { "127.0.0.1:\($0)" }.joined(separator: ","))")
    let channel = makeChannel(target)
    let method = RPCMethod(path: "/t.T/Yield", kind: .unary)
    func answered(by server: TestServer) -> Int { server.counters.finished.withLock { $0.count } }
    _ = try await channel.unary(method, Blob([]), options: CallOptions(waitForReady: true)) as Blob
    let isOver = Counter()
    let callers = (0..<4).map { number in
      Task {
        while isOver.value.load(ordering: .relaxed) == 0 {
          let blob = Blob([UInt8(number)])
          let options = CallOptions(timeout: .seconds(60), isIdempotent: true)
          let response: Blob = try await channel.unary(method, blob, options: options)
          #expect(response == blob)
        }
      }
    }
    for round in 0..<20 {
      // One goes when both are served by: the calls are shared among those that are there.
      let before = servers.map(answered)
      try await eventually { zip(servers, before).allSatisfy { answered(by: $0) >= $1 + 4 } }
      await servers[round % 2].server.shutDown()
      servers[round % 2] = try await TestServer.start { $0.port = ports[round % 2] }
    }
    isOver.value.store(1, ordering: .relaxed)
    for caller in callers { try await caller.value }
    await channel.close()
    for server in servers { await server.server.shutDown() }
  }

  @Test("a channel that is let go closes its connections")
  func abandoned() async throws {
    try await ScriptedPeer.run {
      $0.answer([1])
    } _: { peer, target in
      do {
        let channel = makeChannel(target)
        _ = try await call(channel)
      }
      try await eventually { peer.channels.withLock { $0.allSatisfy { !$0.isActive } } }
    }
  }
}
