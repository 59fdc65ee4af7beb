import GRPC
import Logging
import NIOCore
import NIOPosix
import TLS
import TestSupport
import Testing
import TransportServer
import TransportTestSupport

@testable import TransportClient

@Suite("A client channel and the server")
struct ClientChannelTests {
  static let echo = RPCMethod(path: "/t.T/Echo", kind: .unary)

  /// Runs `body` with a channel to a fresh server.
  func run(
    server adjustServer: (inout RPCServer.Configuration) -> Void = { _ in },
    client adjust: (inout ClientChannel.Configuration) -> Void = { _ in },
    _ body: (ClientChannel, TestServer) async throws -> Void
  ) async throws {
    try await TestServer.run(adjustServer) { server in
      let port = try #require(server.address.port)
      var configuration = ClientChannel.Configuration(target: ChannelTarget(host: "127.0.0.1", port: port)) {
        RPCError.Details(reason: String(decoding: $0, as: UTF8.self))
      }
      adjust(&configuration)
      let channel = ClientChannel(configuration)
      try await body(channel, server)
      await channel.close(grace: .zero)
    }
  }

  @Test("a unary call carries the message and metadata both ways")
  func unary() async throws {
    try await run { channel, _ in
      var metadata: Metadata = ["x-echo": "one"]
      metadata.add("x-echo-bin", binary: [0, 255, 7])
      let received = ResponseMetadata()
      let response: Blob = try await channel.unary(
        Self.echo,
        Blob([1, 2, 3]),
        options: CallOptions(metadata: metadata, responseMetadata: received)
      )
      #expect(response == Blob([1, 2, 3]))
      #expect(received.initial["x-echo"] == "one")
      #expect(received.trailing.firstBinary("x-echo-bin") == [0, 255, 7])
    }
  }

  @Test("an error keeps its code, message, details and trailers")
  func error() async throws {
    try await run { channel, _ in
      let error = await failure(channel, RPCMethod(path: "/t.T/Fail", kind: .unary), Blob([]), options: CallOptions())
      #expect(error?.code == .notFound && error?.message == "nöt\nhere")
      #expect(error?.details.reason == "GONE")
      #expect(error?.metadata["x-good"] == "yes")
    }
  }

  @Test("a method that the server lacks is UNIMPLEMENTED")
  func unimplemented() async throws {
    try await run { channel, _ in
      await #expect(throws: RPCError.self) {
        let _: Blob = try await channel.unary(
          RPCMethod(path: "/t.T/None", kind: .unary),
          Blob([]),
          options: CallOptions()
        )
      }
    }
  }

  @Test("a server stream arrives whole, in order and with its status", arguments: [false, true])
  func serverStream(fails: Bool) async throws {
    try await run { channel, _ in
      let method = RPCMethod(path: "/t.T/Many", kind: .serverStreaming)
      var seen: [UInt8] = []
      do throws(RPCError) {
        seen = try await channel.serverStreaming(method, Blob([fails ? 1 : 0]), options: CallOptions()) {
          (stream: ResponseStream<Blob>) async throws(RPCError) in
          var seen: [UInt8] = []
          for try await blob in stream {
            seen.append(blob.bytes[0])
            // A failing status must not overtake the messages before it for a reader that keeps up.
            if fails, seen.count == 100 { throw RPCError(.aborted, "seen all") }
          }
          return seen
        }
        #expect(!fails)
        #expect(seen == Array(0..<100))
      } catch {
        #expect(fails && (error.code == .dataLoss || error.code == .aborted))
      }
    }
  }

  @Test("leaving a server stream early ends the call at the server")
  func leaveEarly() async throws {
    try await run { channel, server in
      let method = RPCMethod(path: "/t.T/Many", kind: .serverStreaming)
      let first: [UInt8] = try await channel.serverStreaming(method, Blob([0]), options: CallOptions()) {
        (stream: ResponseStream<Blob>) async throws(RPCError) in
        for try await blob in stream { return blob.bytes }
        return []
      }
      #expect(first.count == 5000)
      try await eventually { server.counters.finished.withLock { $0.count } == 1 }
      // Five hundred kilobytes exceed the window: the server cannot have written them all.
      #expect(server.counters.finished.withLock { $0 } == [.cancelled])
    }
  }

  @Test("a client stream is summed, also beyond the window")
  func clientStream() async throws {
    try await run { channel, _ in
      let method = RPCMethod(path: "/t.T/Sum", kind: .clientStreaming)
      let sum: Blob = try await channel.clientStreaming(method, options: CallOptions()) {
        (writer: RequestWriter<Blob>) async throws(RPCError) in
        for _ in 0..<200 { try await writer.write(Blob([UInt8](repeating: 0, count: 10_000))) }
      }
      #expect(String(decoding: sum.bytes, as: UTF8.self) == "2000000")
    }
  }

  @Test("the writer's own error ends the call with it")
  func writerFails() async throws {
    try await run { channel, server in
      let method = RPCMethod(path: "/t.T/Sum", kind: .clientStreaming)
      await #expect(throws: RPCError(.dataLoss, "the file ended")) {
        let _: Blob = try await channel.clientStreaming(method, options: CallOptions()) {
          (writer: RequestWriter<Blob>) async throws(RPCError) in
          try await writer.write(Blob([1]))
          throw RPCError(.dataLoss, "the file ended")
        }
      }
    }
  }

  @Test("ping-pong: the reader decides what is written next")
  func pingPong() async throws {
    try await run { channel, _ in
      let (turns, turn) = AsyncStream.makeStream(of: UInt8.self)
      let method = RPCMethod(path: "/t.T/PingPong", kind: .bidirectional)
      let seen: [UInt8] = try await channel.bidirectional(method, options: CallOptions()) {
        (writer: RequestWriter<Blob>) async throws(RPCError) in
        for await value in turns { try await writer.write(Blob([value])) }
      } _: { (stream: ResponseStream<Blob>) async throws(RPCError) in
        turn.yield(0)
        var seen: [UInt8] = []
        for try await blob in stream {
          seen.append(blob.bytes[0])
          if seen.count < 10 { turn.yield(UInt8(seen.count)) } else { turn.finish() }
        }
        return seen
      }
      #expect(seen == Array(0..<10))
    }
  }

  @Test("a deadline ends the call on both sides")
  func deadline() async throws {
    try await run { channel, server in
      // The connection is up: the deadline falls into the handler.
      let _: Blob = try await channel.unary(Self.echo, Blob([]), options: CallOptions())
      let start = ContinuousClock.now
      let error = await failure(
        channel,
        RPCMethod(path: "/t.T/Wait", kind: .unary),
        Blob([]),
        options: CallOptions(timeout: .seconds(2))
      )
      #expect(error?.code == .deadlineExceeded)
      #expect(ContinuousClock.now - start < .seconds(30))
      try await eventually { server.counters.cancelled.load(ordering: .relaxed) == 1 }
    }
  }

  @Test("an inbound deadline ends the outbound call that serves it, named there or not", arguments: [true, false])
  func propagation(isNamed: Bool) async throws {
    try await run { inner, server in
      let wait = RPCMethod(path: "/t.T/Wait", kind: .unary)
      let relay = RPCMethod(path: "/t.T/Relay", kind: .unary)
      let outer = RPCServer(
        configuration: RPCServer.Configuration(host: "127.0.0.1", port: 0),
        routes: [
          .unary(relay) { (request: Blob, context) async throws(RPCError) -> Blob in
            let options = isNamed ? CallOptions().within(context) : CallOptions()
            return try await inner.unary(wait, request, options: options)
          }
        ],
        logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
      )
      let port = try #require(try await outer.start().port)
      let target = ChannelTarget(host: "127.0.0.1", port: port)
      let channel = ClientChannel(ClientChannel.Configuration(target: target) { _ in nil })
      // The connection is there when the time begins.
      let _: Blob = try await inner.unary(Self.echo, Blob([]), options: CallOptions())
      let error = await failure(channel, relay, Blob([]), options: CallOptions(timeout: .seconds(1)))
      #expect(error?.code == .deadlineExceeded)
      // Long before the handler there would return of itself; on a machine that is too busy it may not have begun.
      try await eventually {
        server.counters.cancelled.load(ordering: .relaxed) == server.counters.started.load(ordering: .relaxed)
      }
      await channel.close(grace: .zero)
      await outer.shutDown()
    }
  }

  @Test("a deadline that is over sends nothing")
  func deadlineOver() async throws {
    try await run { channel, server in
      let error = await failure(channel, Self.echo, Blob([]), options: CallOptions(timeout: .zero))
      #expect(error?.code == .deadlineExceeded)
      #expect(server.counters.finished.withLock { $0 }.isEmpty)
    }
  }

  @Test("cancelling the task cancels the handler")
  func cancellation() async throws {
    try await run { channel, server in
      let call = Task { () async -> StatusCode? in
        do throws(RPCError) {
          let _: Blob = try await channel.unary(
            RPCMethod(path: "/t.T/Wait", kind: .unary),
            Blob([]),
            options: CallOptions()
          )
          return nil
        } catch {
          return error.code
        }
      }
      try await eventually { server.counters.started.load(ordering: .relaxed) == 1 }
      call.cancel()
      #expect(await call.value == .cancelled)
      try await eventually { server.counters.cancelled.load(ordering: .relaxed) == 1 }
    }
  }

  @Test("calls beyond the server's streams wait for their turn")
  func manyCalls() async throws {
    try await run { channel, _ in
      let count = try await withThrowingTaskGroup(of: Bool.self) { group in
        for index in 0..<1_000 {
          group.addTask {
            let blob = Blob([UInt8(index % 256)])
            let response: Blob = try await channel.unary(
              RPCMethod(path: "/t.T/Yield", kind: .unary),
              blob,
              options: CallOptions()
            )
            return response == blob
          }
        }
        return try await group.reduce(0) { $0 + ($1 ? 1 : 0) }
      }
      #expect(count == 1_000)
    }
  }

  @Test("a response above the limit is RESOURCE_EXHAUSTED")
  func messageLimit() async throws {
    try await run(client: { $0.messageLimit = 1_000 }) { channel, _ in
      let error = await failure(channel, Self.echo, Blob([UInt8](repeating: 0, count: 1_001)), options: CallOptions())
      #expect(error?.code == .resourceExhausted)
      let fits: Blob = try await channel.unary(
        Self.echo,
        Blob([UInt8](repeating: 0, count: 1_000)),
        options: CallOptions()
      )
      #expect(fits.bytes.count == 1_000)
    }
  }

  @Test(
    "metadata that cannot travel fails the call here",
    arguments: ["X-Upper", "te", "grpc-timeout", "", "with space", ":path", "x-text-bin"]
  )
  func unusableMetadata(name: String) async throws {
    try await run { channel, server in
      var metadata = Metadata()
      metadata.add(name, "value")
      let error = await failure(channel, Self.echo, Blob([]), options: CallOptions(metadata: metadata))
      #expect(error?.code == .internal)
      #expect(server.counters.finished.withLock { $0 }.isEmpty)
    }
  }

  @Test("speaks TLS with the server, by name and by address, and shows a certificate")
  func tls() async throws {
    let authority = try TestAuthority()
    let identity = try authority.identity("DNS:localhost,IP:127.0.0.1")
    let own = try authority.identity("DNS:client.internal")
    let serverContext = try TLSServerContext(
      .init(identity: identity, clientCertificate: .required(authority.trust))
    )
    let clientContext = try TLSClientContext(.init(trust: authority.trust, identity: own))
    try await run(server: { $0.tls = serverContext }, client: { $0.tls = clientContext }) { channel, _ in
      let response: Blob = try await channel.unary(Self.echo, Blob([9]), options: CallOptions())
      #expect(response == Blob([9]))
    }
  }

  @Test("a server that is not who it must be is UNAVAILABLE, with the reason")
  func tlsRefused() async throws {
    let authority = try TestAuthority()
    let serverContext = try TLSServerContext(.init(identity: authority.identity("DNS:other.test")))
    let clientContext = try TLSClientContext(.init(trust: authority.trust))
    try await run(server: { $0.tls = serverContext }, client: { $0.tls = clientContext }) { channel, _ in
      let error = await failure(channel, Self.echo, Blob([]), options: CallOptions())
      #expect(error?.code == .unavailable && error?.message.contains("another host") == true)
    }
  }

  @Test("closing lets calls on their way finish and takes no new ones")
  func close() async throws {
    try await run { channel, server in
      let call = Task { () async throws -> Blob in
        try await channel.unary(RPCMethod(path: "/t.T/Pause", kind: .unary), Blob([5]), options: CallOptions())
      }
      try await eventually { server.counters.started.load(ordering: .relaxed) == 1 }
      await channel.close(grace: .seconds(10))
      #expect(try await call.value == Blob([5]))
      await #expect(throws: RPCError(.unavailable, "the channel is closed")) {
        let _: Blob = try await channel.unary(Self.echo, Blob([]), options: CallOptions())
      }
    }
  }
}

/// The error of a unary call that must fail.
func failure(
  _ channel: ClientChannel,
  _ method: RPCMethod,
  _ request: Blob,
  options: CallOptions
) async -> RPCError? {
  do throws(RPCError) {
    let _: Blob = try await channel.unary(method, request, options: options)
    Issue.record("the call must fail")
    return nil
  } catch {
    return error
  }
}
