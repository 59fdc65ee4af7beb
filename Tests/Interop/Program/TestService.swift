import GRPC
import InteropProtos

/// Answers the calls of the public gRPC interoperability cases.
struct TestService: GRPCTesting.TestService {
  /// The largest payload that is made on request: what the largest case asks for, with room.
  static let maximumPayload = 1 << 20
  /// Requests that are kept until the last of them has come: far more than any case sends.
  static let maximumRequests = 100

  func emptyCall(
    _ request: GRPCTesting.Empty,
    context: ServerContext
  ) async throws(RPCError) -> GRPCTesting.Empty {
    echoMetadata(context)
    return GRPCTesting.Empty()
  }

  func unaryCall(
    _ request: GRPCTesting.SimpleRequest,
    context: ServerContext
  ) async throws(RPCError) -> GRPCTesting.SimpleResponse {
    echoMetadata(context)
    try expectCompressed(request.expectCompressed, context.wasRequestCompressed)
    try throwStatus(request.responseStatus)
    context.compressesResponses = request.responseCompressed?.value == true
    return GRPCTesting.SimpleResponse(payload: try payload(request.responseSize, "response_size"))
  }

  func streamingOutputCall(
    _ request: GRPCTesting.StreamingOutputCallRequest,
    responses: ResponseWriter<GRPCTesting.StreamingOutputCallResponse>,
    context: ServerContext
  ) async throws(RPCError) {
    echoMetadata(context)
    try throwStatus(request.responseStatus)
    context.compressesResponses = request.responseParameters.contains { $0.compressed?.value == true }
    try await answer(request, responses)
  }

  func streamingInputCall(
    _ requests: RequestStream<GRPCTesting.StreamingInputCallRequest>,
    context: ServerContext
  ) async throws(RPCError) -> GRPCTesting.StreamingInputCallResponse {
    echoMetadata(context)
    var size = 0
    var iterator = requests.makeAsyncIterator()
    while let request = try await iterator.next() {
      try expectCompressed(request.expectCompressed, iterator.wasCompressed)
      size += request.payload?.body.count ?? 0
    }
    return GRPCTesting.StreamingInputCallResponse(aggregatedPayloadSize: Int32(clamping: size))
  }

  func fullDuplexCall(
    _ requests: RequestStream<GRPCTesting.StreamingOutputCallRequest>,
    responses: ResponseWriter<GRPCTesting.StreamingOutputCallResponse>,
    context: ServerContext
  ) async throws(RPCError) {
    echoMetadata(context)
    for try await request in requests {
      try throwStatus(request.responseStatus)
      try await answer(request, responses)
    }
  }

  func halfDuplexCall(
    _ requests: RequestStream<GRPCTesting.StreamingOutputCallRequest>,
    responses: ResponseWriter<GRPCTesting.StreamingOutputCallResponse>,
    context: ServerContext
  ) async throws(RPCError) {
    echoMetadata(context)
    var received: [GRPCTesting.StreamingOutputCallRequest] = []
    for try await request in requests {
      guard received.count < Self.maximumRequests else {
        throw RPCError(.resourceExhausted, "at most \(Self.maximumRequests) requests")
      }
      received.append(request)
    }
    for request in received {
      try throwStatus(request.responseStatus)
      try await answer(request, responses)
    }
  }

  private func answer(
    _ request: GRPCTesting.StreamingOutputCallRequest,
    _ responses: ResponseWriter<GRPCTesting.StreamingOutputCallResponse>
  ) async throws(RPCError) {
    for parameters in request.responseParameters {
      if parameters.intervalUs > 0 {
        do {
          try await Task.sleep(for: .microseconds(Int64(parameters.intervalUs)))
        } catch {
          throw RPCError(.cancelled, "cancelled while waiting")
        }
      }
      let payload = try payload(parameters.size, "response_parameters.size")
      try await responses.write(
        GRPCTesting.StreamingOutputCallResponse(payload: payload),
        compressed: parameters.compressed?.value == true
      )
    }
  }

  private func payload(_ size: Int32, _ field: String) throws(RPCError) -> GRPCTesting.Payload {
    guard (0...Self.maximumPayload).contains(Int(size)) else {
      throw .invalid(field, "must be 0 to \(Self.maximumPayload)")
    }
    return GRPCTesting.Payload(body: [UInt8](repeating: 0, count: Int(size)))
  }

  private func expectCompressed(_ expected: GRPCTesting.BoolValue?, _ wasCompressed: Bool) throws(RPCError) {
    guard let expected, expected.value != wasCompressed else { return }
    throw .invalid("expect_compressed", wasCompressed ? "the message is compressed" : "the message is not compressed")
  }

  private func throwStatus(_ status: GRPCTesting.EchoStatus?) throws(RPCError) {
    guard let status, status.code != 0 else { return }
    throw RPCError(StatusCode(rawValue: Int(status.code)) ?? .unknown, status.message)
  }

  /// The two names that the case custom_metadata wants back.
  private func echoMetadata(_ context: ServerContext) {
    if let value = context.metadata["x-grpc-test-echo-initial"] {
      context.addInitialMetadata(["x-grpc-test-echo-initial": value])
    }
    if let value = context.metadata.firstBinary("x-grpc-test-echo-trailing-bin") {
      var metadata = Metadata()
      metadata.add("x-grpc-test-echo-trailing-bin", binary: value)
      context.addTrailingMetadata(metadata)
    }
  }
}
