internal import Callers
internal import GRPC
internal import HTTP2
internal import NIOCore

/// What a header block asks for: made once for a block, however many calls come with it.
final class ServerRequest {
  let head: RequestHead
  /// Who asks.
  let peer: Peer
  /// What its source holds.
  let account: SourceAccount
  let verdict: RequestHead.Verdict
  /// How to answer within the read pass; nil when it takes a handler's task.
  let direct: DirectCalls?
  /// The door of such calls; nil where there is no method.
  let gate: CallGate?

  init(_ block: HTTP2RequestBlock, _ environment: ServerEnvironment, _ connection: ConnectionPeer) {
    var head = RequestHead()
    if block.byteCount > Limits.uncountedFieldBytes { head.reserve(block.byteCount) }
    let router = environment.router
    // Each pointer is read before `receive` returns.
    unsafe block.forEach { name, value in
      unsafe head.receive(name, value, router)
      return true
    }
    self.head = head
    peer = connection.client(of: head.fields, environment.configuration.proxies)
    account = connection.account(of: peer, environment.budget)
    verdict = head.verdict
    direct = DirectCalls(verdict, head.fields, environment, peer)
    if case .call(let route, _) = verdict { gate = environment.gate(of: route.method) } else { gate = nil }
  }

  /// How long a call may take that may be refused while there is too much to do; nil of any other.
  func refusable(within configuration: RPCServer.Configuration) -> TimeAmount? {
    guard case .call(let route, let timeout) = verdict, !route.isEssential else { return nil }
    switch route.method.kind {
    case .unary, .serverStreaming: break
    case .clientStreaming, .bidirectional: return nil
    }
    let limit = route.timeLimit ?? configuration.timeLimit(route.method.kind) ?? .seconds(3600)
    return TimeAmount(min(timeout ?? limit, limit))
  }
}
