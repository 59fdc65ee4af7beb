/// One of the public cases, by the name that gRPC gives it.
struct InteropCase: Sendable {
  let name: String
  let run: @Sendable (InteropClient) async throws -> Void

  static let all = [
    InteropCase(name: "empty_unary") { try await $0.emptyUnary() },
    InteropCase(name: "large_unary") { try await $0.largeUnary() },
    InteropCase(name: "client_streaming") { try await $0.clientStreaming() },
    InteropCase(name: "server_streaming") { try await $0.serverStreaming() },
    InteropCase(name: "ping_pong") { try await $0.pingPong() },
    InteropCase(name: "half_duplex") { try await $0.halfDuplex() },
    InteropCase(name: "empty_stream") { try await $0.emptyStream() },
    InteropCase(name: "cancel_after_begin") { try await $0.cancelAfterBegin() },
    InteropCase(name: "cancel_after_first_response") { try await $0.cancelAfterFirstResponse() },
    InteropCase(name: "timeout_on_sleeping_server") { try await $0.timeoutOnSleepingServer() },
    InteropCase(name: "status_code_and_message") { try await $0.statusCodeAndMessage() },
    InteropCase(name: "special_status_message") { try await $0.specialStatusMessage() },
    InteropCase(name: "custom_metadata") { try await $0.customMetadata() },
    InteropCase(name: "unimplemented_method") { try await $0.unimplementedMethod() },
    InteropCase(name: "unimplemented_service") { try await $0.unimplementedService() },
    InteropCase(name: "client_compressed_unary") { try await $0.clientCompressedUnary() },
    InteropCase(name: "server_compressed_unary") { try await $0.serverCompressedUnary() },
    InteropCase(name: "client_compressed_streaming") { try await $0.clientCompressedStreaming() },
    InteropCase(name: "server_compressed_streaming") { try await $0.serverCompressedStreaming() },
  ]
}
