import GRPC
import NIOCore
import Testing
import TransportServer
import TransportTestSupport

@Suite("A channel within the process")
struct InProcessChannelTests {
  private let counters = TestServer.Counters()
  private let channel: InProcessChannel

  init() {
    channel = InProcessChannel(
      routes: TestServer.routes(counters), interceptors: [TestServer.Recorder(counters: counters)])
  }

  private func unary(_ name: String, _ bytes: [UInt8], _ options: CallOptions = CallOptions()) async throws -> [UInt8] {
    let response: Blob = try await channel.unary(
      RPCMethod(path: "/t.T/\(name)", kind: .unary), Blob(bytes), options: options)
    return response.bytes
  }

  private func error(_ name: String, _ options: CallOptions = CallOptions()) async -> RPCError? {
    await #expect(throws: RPCError.self) { try await unary(name, [1], options) }
  }

  @Test("carries messages and metadata both ways")
  func unary() async throws {
    let received = ResponseMetadata()
    var options = CallOptions(metadata: ["x-echo": "one"], responseMetadata: received)
    options.metadata.add("x-echo-bin", binary: [0, 255, 7])
    #expect(try await unary("Echo", [1, 2, 3], options) == [1, 2, 3])
    #expect(received.initial["x-echo"] == "one")
    #expect(received.trailing.firstBinary("x-echo-bin") == [0, 255, 7])
    #expect(try await unary("Who", []) == Array("192.0.2.7".utf8))
    #expect(try await unary("Squeeze", [0, 5], CallOptions(compression: .gzip)) == [0, 5])
    #expect(counters.finished.withLock { $0 } == [.ok, .ok, .ok])
  }

  @Test("ends calls as one over a network does")
  func errors() async {
    let failure = await error("Fail")
    #expect(failure?.code == .notFound && failure?.details.reason == "GONE" && failure?.metadata["x-good"] == "yes")
    #expect(await error("Nothing")?.code == .unimplemented)
    #expect(await error("Echo", CallOptions(metadata: ["x-refuse": "1"]))?.details.reason == "REFUSED")
    #expect(await error("Wait", CallOptions(timeout: .milliseconds(20)))?.code == .deadlineExceeded)
    // A message above what the route takes.
    let large = await #expect(throws: RPCError.self) {
      try await unary("Echo", [UInt8](repeating: 0, count: 8 * 1024 * 1024))
    }
    #expect(large?.code == .resourceExhausted)
  }

  @Test("cancels the handler of a caller that leaves")
  func cancel() async throws {
    let call = Task { await error("Wait")?.code }
    try await eventually { counters.started.load(ordering: .relaxed) == 1 }
    call.cancel()
    #expect(await call.value == .cancelled)
    try await eventually { counters.cancelled.load(ordering: .relaxed) == 1 }
    #expect(counters.finished.withLock { $0 } == [.cancelled])
  }

  @Test("asks the interceptors of a call that goes no further")
  func begins() async throws {
    let wait = RPCMethod(path: "/t.T/Wait", kind: .unary)
    try await channel.begin(wait, options: CallOptions())
    let refusal = await #expect(throws: RPCError.self) {
      try await channel.begin(wait, options: CallOptions(metadata: ["x-refuse": "1"]))
    }
    #expect(refusal?.code == .unauthenticated && counters.started.load(ordering: .relaxed) == 0)
  }

  @Test("streams either way, and parks calls that wait")
  func streams() async throws {
    let many = RPCMethod(path: "/t.T/Many", kind: .serverStreaming)
    let sizes: [Int] = try await channel.serverStreaming(many, Blob([]), options: CallOptions()) {
      (responses: ResponseStream<Blob>) async throws(RPCError) in
      var sizes: [Int] = []
      for try await response in responses { sizes.append(response.bytes.count) }
      return sizes
    }
    #expect(sizes == [Int](repeating: 5000, count: 100))

    let sum: Blob = try await channel.clientStreaming(
      RPCMethod(path: "/t.T/Sum", kind: .clientStreaming), options: CallOptions()
    ) { (writer: RequestWriter<Blob>) async throws(RPCError) in
      for _ in 0..<50 { try await writer.write(Blob([UInt8](repeating: 1, count: 9000))) }
    }
    #expect(sum.bytes == Array("450000".utf8))

    let echoed: [UInt8] = try await channel.bidirectional(
      RPCMethod(path: "/t.T/PingPong", kind: .bidirectional), options: CallOptions(),
      { (writer: RequestWriter<Blob>) async throws(RPCError) in
        for number in 0..<20 { try await writer.write(Blob([UInt8(number)])) }
      },
      { (responses: ResponseStream<Blob>) async throws(RPCError) in
        var numbers: [UInt8] = []
        for try await response in responses { numbers += response.bytes }
        return numbers
      }
    )
    #expect(echoed == Array(0..<20))

    let listen = RPCMethod(path: "/t.T/Listen", kind: .serverStreaming)
    let heard: [UInt8] = try await channel.serverStreaming(listen, Blob([]), options: CallOptions()) {
      (responses: ResponseStream<Blob>) async throws(RPCError) in
      async let _: Void = ring()
      var heard: [UInt8] = []
      for try await response in responses { heard += response.bytes }
      return heard
    }
    #expect(heard == [1, 2, 3])
  }

  /// Rings three times, once somebody waits for it.
  private func ring() async {
    for _ in 0..<3 {
      try? await eventually { counters.bell.waiting == 1 }
      counters.bell.ring()
    }
  }
}
