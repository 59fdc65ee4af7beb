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
  /// The call, be it gRPC's or gRPC-Web's; nil where it is none.
  let call: (route: RPCRoute, timeout: Duration?)?
  /// How to answer within the read pass; nil when it takes a handler's task.
  let direct: DirectCalls?
  /// The door of such calls; nil where there is no method.
  let gate: CallGate?
  private var knownRefusal: (head: HTTP2FieldList, body: ByteBuffer)?

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
    if case .call(let route, let timeout) = head.webFormat == nil ? verdict : head.webVerdict {
      call = (route, timeout)
      gate = environment.gate(of: route.method)
    } else {
      (call, gate) = (nil, nil)
    }
  }

  /// How long a call may take that may be refused while there is too much to do; nil of any other.
  func refusable(within configuration: RPCServer.Configuration) -> TimeAmount? {
    guard let call else { return nil }
    return call.route.refusable(call.timeout, within: configuration)
  }

  /// How long the request may wait; nil where it is not refused for that. Who asks something of a page says no time.
  func patience(within configuration: RPCServer.Configuration) -> TimeAmount? {
    if let limit = refusable(within: configuration) { return Limits.patience(within: limit) }
    return isForm ? Limits.pagePatience : nil
  }

  /// Whether something is asked of a page. One that is only read costs what refusing it does.
  private var isForm: Bool {
    guard case .unsupportedMediaType = verdict, head.webFormat == nil else { return false }
    return head.httpMethod.isEmpty
  }

  /// What is told to who asks something of a page, or by gRPC-Web, and is refused at once; nil of gRPC's calls, which share theirs.
  func ownRefusal(_ environment: ServerEnvironment) -> (head: HTTP2FieldList, body: ByteBuffer)? {
    if let knownRefusal { return knownRefusal }
    if isForm {
      let page = environment.latePage(head.fields.first("origin"))
      let length = ("content-length", String(page.sentBody.readableBytes))
      knownRefusal = Self.refusal(page.status, page.headers + [length], page.sentBody)
    } else if let format = head.webFormat {
      let answer = WebAnswer(format: format, origin: head.fields.first("origin"), environment: environment)
      knownRefusal = Self.refusal(200, answer.head(), answer.body(answer.trailers(ServerBudget.refusalOfLate())))
    }
    return knownRefusal
  }

  private static func refusal(_ status: Int, _ headers: [(name: String, value: String)], _ body: ByteBuffer)
    -> (head: HTTP2FieldList, body: ByteBuffer)
  {
    var fields = HTTP2FieldList()
    fields.add(":status", String(status))
    for (name, value) in headers { fields.add(name: name, value: value) }
    return (fields, body)
  }
}

extension RPCRoute {
  /// How long a call with this timeout may take, if it may be refused while there is too much to do.
  func refusable(_ timeout: Duration?, within configuration: RPCServer.Configuration) -> TimeAmount? {
    guard !isEssential else { return nil }
    switch method.kind {
    case .unary, .serverStreaming: break
    case .clientStreaming, .bidirectional: return nil
    }
    let limit = timeLimit ?? configuration.timeLimit(method.kind) ?? .seconds(3600)
    return TimeAmount(min(timeout ?? limit, limit))
  }
}
