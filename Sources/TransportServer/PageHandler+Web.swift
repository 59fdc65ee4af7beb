internal import GRPC
internal import NIOCore
internal import NIOHTTP1

/// The gRPC-Web calls of a connection over HTTP/1.1, and whose its requests are.
extension PageHandler: WebCallSink {
  /// Whether a call has all of its request, so that what comes is behind it.
  var isCallAnswered: Bool { web != nil && !isReceiving }

  /// Takes the request if it is a gRPC-Web call.
  func beginWeb(_ request: HTTPRequestHead) -> Bool {
    guard request.method == .POST, request.headers.contains(name: "content-type") else { return false }
    var head = RequestHead()
    let router = environment.router
    head.receive(":method", request.method.rawValue, router)
    head.receive(":path", request.uri, router)
    for (name, value) in request.headers where !Self.isOfConnection(name.lowercased()) {
      head.receive(name.lowercased(), value, router)
    }
    guard let format = head.webFormat else { return false }
    let client = client(of: request)
    let call = WebCall(
      format,
      head,
      WebCall.Place(
        environment: environment, executor: executor, peer: client, account: account, answersWhole: true),
      sink: self
    )
    web = (call, request)
    call.begin(head)
    return true
  }

  /// Whose request it is, which all that is done here is for until the next one.
  func client(of request: HTTPRequestHead) -> Peer {
    let client = peer.client(of: { request.headers[$0] }, environment.configuration.proxies)
    account = peer.account(of: client, environment.budget)
    if peer.proxy != nil {
      executor.source = account === peer.account ? .connection(ObjectIdentifier(executor)) : .address(account.source)
    }
    return client
  }

  /// What speaks of the connection and not of the call (RFC 9110 §7.6.1).
  private static func isOfConnection(_ name: String) -> Bool {
    switch name {
    case "connection", "content-length", "host", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade": true
    default: false
    }
  }

  /// An answer that ends before the request does ends the connection as well.
  private func isCallKeptAlive(_ request: HTTPRequestHead) -> Bool {
    isKeptAlive(request) && request.version != .http1_0 && !isReceiving
  }

  func webCall(_ call: WebCall, answers headers: [(name: String, value: String)]) {
    guard let web, web.call === call else { return }
    writer.sendHead(200, headers, to: web.head, isKeptAlive: isCallKeptAlive(web.head))
  }

  func webCallKeepsLittle(_ call: WebCall) { reportBuffered() }

  func webCallReturned(_ call: WebCall) {}

  func webCall(_ call: WebCall, isLateAfter patience: TimeAmount) -> Bool { isLate(after: patience) }

  /// Whether what comes now has waited for longer than that for others, or will.
  func isLate(after patience: TimeAmount) -> Bool {
    let turn = executor.turns.wait(of: executor.source)
    return environment.budget.lateness(own: lateness, refused: .zero, turn: turn, of: account) > patience
  }

  func webCall(_ call: WebCall, sends body: ByteBuffer) {
    guard let web, web.call === call else { return }
    writer.sendBody(body) { call.wrote($0) }
  }

  func webCallEnded(_ call: WebCall) {
    guard let web, web.call === call else { return }
    self.web = nil
    sendEnd(isKeptAlive: isCallKeptAlive(web.head))
  }
}

extension RequestHead {
  fileprivate mutating func receive(_ name: String, _ value: String, _ router: Router) {
    var (name, value) = (name, value)
    // Both are read before the call returns.
    name.withUTF8 { name in
      value.withUTF8 { value in
        unsafe receive(UnsafeRawBufferPointer(name), UnsafeRawBufferPointer(value), router)
      }
    }
  }
}
