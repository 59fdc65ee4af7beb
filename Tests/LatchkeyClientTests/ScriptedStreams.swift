import GRPC
import LatchkeyClient
import LatchkeyProtos
import NIOCore
import Synchronization

/// A channel whose streams say what a test scripts, one script for each call; all other calls go on to another channel.
final class ScriptedStreams: RPCChannel {
  /// The messages of one stream, framed by nothing, and how it ends; nil for well.
  struct Script: Sendable {
    var messages: [ByteBuffer]
    var end: RPCError?

    init(_ messages: [some RPCMessage], end: RPCError? = nil) throws {
      self.messages = try messages.map { message in
        var bytes = ByteBuffer()
        try message.encode(into: &bytes)
        return bytes
      }
      self.end = end
    }
  }

  private struct State {
    var scripts: [Script]
    var calls = 0
  }

  private let others: any RPCChannel
  private let state: Mutex<State>

  /// - Parameter scripts: the last one is repeated.
  init(_ scripts: [Script], others: any RPCChannel) {
    self.others = others
    state = Mutex(State(scripts: scripts))
  }

  /// Streams that were asked for.
  var calls: Int { state.withLock { $0.calls } }

  func serverStreaming<Request: RPCMessage, Response: RPCMessage, Result: Sendable>(
    _ method: RPCMethod, _ request: Request, options: CallOptions,
    _ body: (ResponseStream<Response>) async throws(RPCError) -> Result
  ) async throws(RPCError) -> Result {
    let script = state.withLock { state in
      state.calls += 1
      return state.scripts.count > 1 ? state.scripts.removeFirst() : state.scripts[0]
    }
    let inbox = MessageInbox { _ in }
    for message in script.messages { inbox.deliver(ReceivedMessage(bytes: message)) }
    inbox.finish(script.end, afterMessages: true)
    return try await body(ResponseStream(inbox))
  }

  func unary<Request: RPCMessage, Response: RPCMessage>(
    _ method: RPCMethod, _ request: Request, options: CallOptions
  ) async throws(RPCError) -> Response {
    try await others.unary(method, request, options: options)
  }

  func clientStreaming<Request: RPCMessage, Response: RPCMessage>(
    _ method: RPCMethod, options: CallOptions,
    _ send: @escaping @Sendable (RequestWriter<Request>) async throws(RPCError) -> Void
  ) async throws(RPCError) -> Response {
    try await others.clientStreaming(method, options: options, send)
  }

  func bidirectional<Request: RPCMessage, Response: RPCMessage, Result: Sendable>(
    _ method: RPCMethod, options: CallOptions,
    _ send: @escaping @Sendable (RequestWriter<Request>) async throws(RPCError) -> Void,
    _ body: (ResponseStream<Response>) async throws(RPCError) -> Result
  ) async throws(RPCError) -> Result {
    try await others.bidirectional(method, options: options, send, body)
  }
}
