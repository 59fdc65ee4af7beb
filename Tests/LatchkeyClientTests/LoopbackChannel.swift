import GRPC
import Synchronization
import TransportServer

/// A channel to handlers in this process, on which a test may lose the request or the answer of any call.
final class LoopbackChannel: RPCChannel {
  enum Fault: Equatable {
    /// The service never hears of the call.
    case requestLost
    /// The service has done its work, and the caller hears nothing.
    case answerLost
    /// Something on the way answers for the service.
    case refused(RPCError)
  }

  private struct State {
    var faults: [String: [Fault]] = [:]
    var meanwhile: [String: (isAnswered: Bool, body: @Sendable () async throws -> Void)] = [:]
    var calls: [(path: String, metadata: Metadata)] = []
  }

  private let service: InProcessChannel
  private let state = Mutex(State())

  init(_ routes: [RPCRoute], interceptors: [any ServerInterceptor]) {
    service = InProcessChannel(routes: routes, interceptors: interceptors)
  }

  /// The next call of the method meets this fault.
  func inject(_ fault: Fault, into path: String) {
    state.withLock { $0.faults[path, default: []].append(fault) }
  }

  /// Happens once, while the next call of the method is on its way to the service, or its answer on the way back.
  func meanwhile(_ path: String, answered: Bool = false, _ body: @escaping @Sendable () async throws -> Void) {
    state.withLock { $0.meanwhile[path] = (answered, body) }
  }

  private func letHappen(_ path: String, answered: Bool) async throws(RPCError) {
    let event = state.withLock { state in
      state.meanwhile[path]?.isAnswered == answered ? state.meanwhile.removeValue(forKey: path) : nil
    }
    do { try await event?.body() } catch { throw RPCError(.internal, "meanwhile: \(error)") }
  }

  /// What was called so far, in order.
  var calls: [String] { state.withLock { $0.calls.map(\.path) } }

  func metadata(ofLast path: String) -> Metadata? {
    state.withLock { $0.calls.last { $0.path == path }?.metadata }
  }

  func unary<Request: RPCMessage, Response: RPCMessage>(
    _ method: RPCMethod,
    _ request: Request,
    options: CallOptions
  ) async throws(RPCError) -> Response {
    let fault = state.withLock { state -> Fault? in
      state.calls.append((method.path, options.metadata))
      guard let waiting = state.faults[method.path], !waiting.isEmpty else { return nil }
      return state.faults[method.path]?.removeFirst()
    }
    try await letHappen(method.path, answered: false)
    if fault == .requestLost { throw RPCError(.unavailable, "the request was lost") }
    if case .refused(let error) = fault { throw error }
    let response: Response = try await service.unary(method, request, options: options)
    try await letHappen(method.path, answered: true)
    if fault == .answerLost { throw RPCError(.unavailable, "the answer was lost") }
    return response
  }

  func serverStreaming<Request: RPCMessage, Response: RPCMessage, Result: Sendable>(
    _ method: RPCMethod,
    _ request: Request,
    options: CallOptions,
    _ body: (ResponseStream<Response>) async throws(RPCError) -> Result
  ) async throws(RPCError) -> Result {
    try await service.serverStreaming(method, request, options: options, body)
  }

  func clientStreaming<Request: RPCMessage, Response: RPCMessage>(
    _ method: RPCMethod,
    options: CallOptions,
    _ send: @escaping @Sendable (RequestWriter<Request>) async throws(RPCError) -> Void
  ) async throws(RPCError) -> Response {
    try await service.clientStreaming(method, options: options, send)
  }

  func bidirectional<Request: RPCMessage, Response: RPCMessage, Result: Sendable>(
    _ method: RPCMethod,
    options: CallOptions,
    _ send: @escaping @Sendable (RequestWriter<Request>) async throws(RPCError) -> Void,
    _ body: (ResponseStream<Response>) async throws(RPCError) -> Result
  ) async throws(RPCError) -> Result {
    try await service.bidirectional(method, options: options, send, body)
  }
}
