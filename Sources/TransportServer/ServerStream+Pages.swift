internal import GRPC
internal import HTTP2
internal import NIOCore

/// Plain HTTP over a stream.
extension ServerStream {
  func beginPage(_ request: ServerRequest) {
    let head = request.head
    content = .page
    watchBody()
    if let format = head.webFormat { return beginWeb(format, request) }
    let path = PageTable.split(String(decoding: head.httpPath, as: UTF8.self)).path
    let isEssential =
      path == Page.health.path && account.essentialCalls.load(ordering: .relaxed) < Limits.essentialCalls
    guard isEssential || hasRoom && !account.rests else {
      return answerPage(noRoomPage, isHead: head.httpMethod.elementsEqual("HEAD".utf8))
    }
    // For its body, if for nothing else.
    pageShare.take(of: connection.environment.budget, for: account, isEssential: path == Page.health.path)
    let isPost = head.httpMethod.isEmpty
    if isPost, case .none = connection.environment.pages.find(method: "POST", path: path) {
      // As gRPC over HTTP/2 has it for other content types. Not before the request is whole: it may turn out malformed.
      refusal = PageResponse(status: 415, text: "unsupported media type\n")
    }
  }

  /// What is told to who asks for a page when there is no room.
  var noRoomPage: PageResponse { connection.environment.noRoomPage(request?.head.fields.first("origin")) }

  func runPage() {
    if let refusal { return answerPage(refusal, isHead: false) }
    guard content == .page, !isPageRunning, let asked = request else { return }
    let head = asked.head
    let (path, query) = PageTable.split(String(decoding: head.httpPath, as: UTF8.self))
    var headers: [(name: String, value: String)] = []
    var cookies: [String] = []
    head.fields.forEach { name, value in
      let (name, value) = (String(decoding: name, as: UTF8.self), String(decoding: value, as: UTF8.self))
      if name == "cookie" { cookies.append(value) } else { headers.append((name, value)) }
      return true
    }
    // RFC 9113 §8.2.3: a client may give each cookie a field of its own.
    if !cookies.isEmpty { headers.append(("cookie", cookies.joined(separator: "; "))) }
    let request = PageRequest(
      method: head.httpMethod.isEmpty ? "POST" : String(decoding: head.httpMethod, as: UTF8.self),
      path: path,
      query: query,
      headers: headers,
      body: pageBody,
      peerAddress: asked.peer.address
    )
    isPageRunning = true
    let task = Task.immediate(executorPreference: connection.executor(of: asked)) { [self] in
      let response = await connection.environment.answer(request, asked.account, hasPlace: true)
      isPageRunning = false
      pageTask = nil
      pageShare.giveBack(to: connection.environment.budget)
      answerPage(response, isHead: request.method == "HEAD")
      recycleIfOver()
    }
    guard isPageRunning else { return }
    pageTask = task
  }

  func answerPage(_ response: PageResponse, isHead: Bool) {
    guard content == .page else { return }
    content = .nothing
    messageEnd = nil
    if !isPageRunning {
      pageShare.giveBack(to: connection.environment.budget)
      pageBody = []
      letGo()
    }
    guard let stream, let session = connection.session else { return }
    var fields = HTTP2FieldList()
    fields.add(":status", String(response.status))
    for (name, value) in response.sentFields { fields.add(name: name, value: value) }
    let isEmpty = response.sentBody.readableBytes == 0 || isHead
    session.respond(stream, fields, endStream: isEmpty)
    if !isEmpty {
      session.write(stream, response.sentBody)
      session.finish(stream)
    }
    connection.wantOutput()
  }
}

// MARK: gRPC-Web

extension ServerStream: WebCallSink {
  private func beginWeb(_ format: WebFormat, _ request: ServerRequest) {
    let place = WebCall.Place(
      environment: connection.environment,
      executor: connection.executor(of: request),
      peer: request.peer,
      account: request.account,
      answersWhole: false
    )
    let web = WebCall(format, request.head, place, sink: self)
    self.web = web
    web.begin(request.head)
  }

  func webCall(_ call: WebCall, answers headers: [(name: String, value: String)]) {
    guard content == .page, let stream, let session = connection.session else { return }
    var fields = HTTP2FieldList()
    fields.add(":status", "200")
    for (name, value) in headers { fields.add(name: name, value: value) }
    session.respond(stream, fields)
  }

  func webCall(_ call: WebCall, sends body: ByteBuffer) {
    guard content == .page, let stream, let session = connection.session else { return }
    session.write(stream, body)
    connection.wantOutput()
  }

  func webCallEnded(_ call: WebCall) {
    guard content == .page else { return }
    content = .nothing
    messageEnd = nil
    letGo()
    guard let stream, let session = connection.session else { return }
    session.finish(stream)
    connection.wantOutput()
  }

  func webCallKeepsLittle(_ call: WebCall) { letGo() }

  /// The session has turned those away.
  func webCall(_ call: WebCall, isLateAfter patience: TimeAmount) -> Bool { false }

  func webCallReturned(_ call: WebCall) {
    recycleIfOver()
  }
}
