import GRPC
import InteropProtos

/// What our client has to see in each of the public cases.
///
/// Source: grpc/grpc doc/interop-test-descriptions.md.
struct InteropClient {
  /// A case saw something else than it must.
  struct Mismatch: Error, CustomStringConvertible {
    var description: String
  }

  private static let largeRequest = 271_828
  private static let largeResponse: Int32 = 314_159
  private static let requestSizes = [27_182, 8, 1828, 45_904]
  private static let responseSizes: [Int32] = [31_415, 9, 2653, 58_979]

  let channel: any RPCChannel
  private var service: GRPCTesting.TestServiceClient { GRPCTesting.TestServiceClient(channel: channel) }
  /// Far beyond what a case takes: one that hangs fails.
  private let options = CallOptions(timeout: .seconds(20))

  init(channel: any RPCChannel) {
    self.channel = channel
  }

  // MARK: - The cases

  func emptyUnary() async throws {
    try expect(try await service.emptyCall(GRPCTesting.Empty(), options: options), GRPCTesting.Empty(), "response")
  }

  func largeUnary() async throws {
    let response = try await service.unaryCall(largeRequest(), options: options)
    try expect(response.payload?.body, [UInt8](repeating: 0, count: Int(Self.largeResponse)), "payload")
  }

  func clientStreaming() async throws {
    let response = try await service.streamingInputCall(options: options) { writer throws(RPCError) in
      for size in Self.requestSizes {
        try await writer.write(GRPCTesting.StreamingInputCallRequest(payload: payload(size)))
      }
    }
    try expect(Int(response.aggregatedPayloadSize), Self.requestSizes.reduce(0, +), "aggregated size")
  }

  func serverStreaming() async throws {
    let request = GRPCTesting.StreamingOutputCallRequest(
      responseParameters: Self.responseSizes.map { GRPCTesting.ResponseParameters(size: $0) }
    )
    let sizes = try await service.streamingOutputCall(request, options: options, Self.sizes)
    try expect(sizes, Self.responseSizes.map(Int.init), "sizes")
  }

  func pingPong() async throws {
    let (requests, feed) = AsyncStream.makeStream(of: GRPCTesting.StreamingOutputCallRequest.self)
    let sizes = try await service.fullDuplexCall(
      options: options,
      send: { writer throws(RPCError) in for await request in requests { try await writer.write(request) } },
      body: { responses throws(RPCError) in
        var sizes: [Int] = []
        var iterator = responses.makeAsyncIterator()
        for (response, request) in zip(Self.responseSizes, Self.requestSizes) {
          feed.yield(outputRequest(response, body: request))
          guard let next = try await iterator.next() else { return sizes }
          sizes.append(next.payload?.body.count ?? 0)
        }
        feed.finish()
        if try await iterator.next() != nil { sizes.append(-1) }
        return sizes
      }
    )
    try expect(sizes, Self.responseSizes.map(Int.init), "sizes")
  }

  func halfDuplex() async throws {
    let sizes = try await service.halfDuplexCall(
      options: options,
      send: { writer throws(RPCError) in
        for size in Self.responseSizes { try await writer.write(outputRequest(size, body: 0)) }
      },
      body: Self.sizes
    )
    try expect(sizes, Self.responseSizes.map(Int.init), "sizes")
  }

  func emptyStream() async throws {
    let sizes = try await service.fullDuplexCall(options: options, send: { _ in }, body: Self.sizes)
    try expect(sizes, [], "responses")
  }

  func cancelAfterBegin() async throws {
    let (begun, feed) = AsyncStream.makeStream(of: Void.self)
    let call = Task { [service, options] in
      try await service.streamingInputCall(options: options) { _ throws(RPCError) in
        feed.yield()
        try await Self.sleep(.seconds(20))
      }
    }
    for await _ in begun { break }
    call.cancel()
    try await expectStatus(.cancelled) { _ = try await call.value }
  }

  func cancelAfterFirstResponse() async throws {
    let (arrived, feed) = AsyncStream.makeStream(of: Int.self)
    let call = Task { [service, options] in
      try await service.fullDuplexCall(
        options: options,
        send: { writer throws(RPCError) in
          try await writer.write(outputRequest(31_415, body: 27_182))
          try await Self.sleep(.seconds(20))
        },
        body: { responses throws(RPCError) in
          for try await response in responses { feed.yield(response.payload?.body.count ?? 0) }
        }
      )
    }
    for await size in arrived {
      try expect(size, 31_415, "size")
      break
    }
    call.cancel()
    try await expectStatus(.cancelled) { try await call.value }
  }

  func timeoutOnSleepingServer() async throws {
    let started = ContinuousClock.now
    // The server would answer after half a minute.
    let request = outputRequest(1, body: 27_182, intervalUs: 30_000_000)
    try await expectStatus(.deadlineExceeded) {
      _ = try await service.fullDuplexCall(
        options: CallOptions(timeout: .milliseconds(200)),
        send: { writer throws(RPCError) in
          try await writer.write(request)
          try await Self.sleep(.seconds(20))
        },
        body: Self.sizes
      )
    }
    guard started.duration(to: .now) < .seconds(5) else { throw Mismatch(description: "the deadline was not kept") }
  }

  func statusCodeAndMessage() async throws {
    try await expectEchoedStatus("test status message")
  }

  func specialStatusMessage() async throws {
    try await expectEchoedStatus("\t\ntest with whitespace\r\nand Unicode BMP \u{263a} and non-BMP \u{1f608}\t\n")
  }

  func customMetadata() async throws {
    var metadata: Metadata = ["x-grpc-test-echo-initial": "test_initial_metadata_value"]
    metadata.add("x-grpc-test-echo-trailing-bin", binary: [0xab, 0xab, 0xab])
    func received(_ call: (CallOptions) async throws -> Void) async throws {
      let received = ResponseMetadata()
      var options = options
      options.metadata = metadata
      options.responseMetadata = received
      try await call(options)
      try expect(received.initial["x-grpc-test-echo-initial"], "test_initial_metadata_value", "initial metadata")
      try expect(
        received.trailing.firstBinary("x-grpc-test-echo-trailing-bin"),
        [0xab, 0xab, 0xab],
        "trailing metadata"
      )
    }
    try await received { _ = try await service.unaryCall(largeRequest(), options: $0) }
    try await received { options in
      let sizes = try await service.fullDuplexCall(
        options: options,
        send: { writer throws(RPCError) in
          try await writer.write(outputRequest(Self.largeResponse, body: Self.largeRequest))
        },
        body: Self.sizes
      )
      try expect(sizes, [Int(Self.largeResponse)], "sizes")
    }
  }

  func unimplementedMethod() async throws {
    try await expectUnimplemented("/grpc.testing.TestService/UnimplementedCall")
  }

  func unimplementedService() async throws {
    try await expectUnimplemented("/grpc.testing.UnimplementedService/UnimplementedCall")
  }

  /// Without the case's first step, a request that lies about itself: stock servers in Python cannot tell.
  func clientCompressedUnary() async throws {
    for compressed in [true, false] {
      var request = largeRequest()
      request.expectCompressed = GRPCTesting.BoolValue(value: compressed)
      var options = options
      options.compression = compressed ? .gzip : .identity
      let response = try await service.unaryCall(request, options: options)
      try expect(response.payload?.body.count, Int(Self.largeResponse), "payload")
    }
  }

  func serverCompressedUnary() async throws {
    for compressed in [true, false] {
      var request = largeRequest()
      request.responseCompressed = GRPCTesting.BoolValue(value: compressed)
      let received = ResponseMetadata()
      var options = options
      options.responseMetadata = received
      let response = try await service.unaryCall(request, options: options)
      try expect(response.payload?.body.count, Int(Self.largeResponse), "payload")
      try expect(received.wasCompressed, compressed, "whether the response came compressed")
    }
  }

  func clientCompressedStreaming() async throws {
    var options = options
    options.compression = .gzip
    let response = try await service.streamingInputCall(options: options) { writer throws(RPCError) in
      for (size, compressed) in [(27_182, true), (45_904, false)] {
        let request = GRPCTesting.StreamingInputCallRequest(
          payload: payload(size),
          expectCompressed: GRPCTesting.BoolValue(value: compressed)
        )
        try await writer.write(request, compressed: compressed)
      }
    }
    try expect(response.aggregatedPayloadSize, 73_086, "aggregated size")
  }

  func serverCompressedStreaming() async throws {
    let request = GRPCTesting.StreamingOutputCallRequest(
      responseParameters: [(31_415, true), (92_653, false)].map { size, compressed in
        GRPCTesting.ResponseParameters(size: size, compressed: GRPCTesting.BoolValue(value: compressed))
      }
    )
    let seen = try await service.streamingOutputCall(request, options: options) { responses throws(RPCError) in
      var seen: [String] = []
      var iterator = responses.makeAsyncIterator()
      while let response = try await iterator.next() {
        seen.append("\(response.payload?.body.count ?? 0) \(iterator.wasCompressed)")
      }
      return seen
    }
    try expect(seen, ["31415 true", "92653 false"], "sizes, and whether they came compressed")
  }

  // MARK: - Helpers

  private func largeRequest() -> GRPCTesting.SimpleRequest {
    GRPCTesting.SimpleRequest(responseSize: Self.largeResponse, payload: payload(Self.largeRequest))
  }

  @Sendable private static func sizes(
    _ responses: ResponseStream<GRPCTesting.StreamingOutputCallResponse>
  ) async throws(RPCError) -> [Int] {
    var sizes: [Int] = []
    for try await response in responses { sizes.append(response.payload?.body.count ?? 0) }
    return sizes
  }

  /// Keeps a request stream open until the call is over.
  private static func sleep(_ duration: Duration) async throws(RPCError) {
    do { try await Task.sleep(for: duration) } catch { throw RPCError(.cancelled, "the call is over") }
  }

  private func expectEchoedStatus(_ message: String) async throws {
    let status = GRPCTesting.EchoStatus(code: 2, message: message)
    try await expectStatus(.unknown, message) {
      _ = try await service.unaryCall(GRPCTesting.SimpleRequest(responseStatus: status), options: options)
    }
    try await expectStatus(.unknown, message) {
      _ = try await service.fullDuplexCall(
        options: options,
        send: { writer throws(RPCError) in
          try await writer.write(GRPCTesting.StreamingOutputCallRequest(responseStatus: status))
        },
        body: Self.sizes
      )
    }
  }

  private func expectUnimplemented(_ path: String) async throws {
    try await expectStatus(.unimplemented) {
      let method = RPCMethod(path: path, kind: .unary)
      let _: GRPCTesting.Empty = try await channel.unary(method, GRPCTesting.Empty(), options: options)
    }
  }

  private func expectStatus(_ code: StatusCode, _ message: String? = nil, _ call: () async throws -> Void) async throws
  {
    do {
      try await call()
    } catch let error as RPCError {
      try expect(error.code, code, "status (\(error.message))")
      if let message { try expect(error.message, message, "status message") }
      return
    }
    throw Mismatch(description: "the call succeeded, expected \(code)")
  }

  private func expect<Value: Equatable>(_ actual: Value, _ expected: Value, _ what: String) throws {
    guard actual != expected else { return }
    throw Mismatch(description: "\(what): \("\(actual)".prefix(200)), expected \("\(expected)".prefix(200))")
  }
}

private func payload(_ size: Int) -> GRPCTesting.Payload {
  GRPCTesting.Payload(body: [UInt8](repeating: 0, count: size))
}

private func outputRequest(
  _ size: Int32,
  body: Int,
  intervalUs: Int32 = 0
) -> GRPCTesting.StreamingOutputCallRequest {
  GRPCTesting.StreamingOutputCallRequest(
    responseParameters: [GRPCTesting.ResponseParameters(size: size, intervalUs: intervalUs)],
    payload: payload(body)
  )
}
