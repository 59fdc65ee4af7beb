internal import NIOCore

/// A plain HTTP page next to the RPCs of a port, such as a key set or a sign-in page. Answers over HTTP/1.1 and
/// HTTP/2.
package struct Page: Sendable {
  package typealias Handler = @Sendable (PageRequest) async -> PageResponse

  /// `GET`, `POST`, …; a page for `GET` answers `HEAD` as well.
  package let method: String
  /// The path without a query, compared byte by byte.
  package let path: String
  /// Whether the page answers for every path that begins with `path`.
  let isPrefix: Bool
  package let handle: Handler

  package init(_ method: String, _ path: String, _ handle: @escaping Handler) {
    self.method = method
    self.path = path
    isPrefix = false
    self.handle = handle
  }

  /// A page for every path below `prefix`, which ends in a slash.
  package init(_ method: String, below prefix: String, _ handle: @escaping Handler) {
    precondition(prefix.hasSuffix("/"), "a prefix ends where a path segment ends")
    self.method = method
    path = prefix
    isPrefix = true
    self.handle = handle
  }

  func answers(_ path: String) -> Bool {
    isPrefix ? path.utf8.starts(with: self.path.utf8) : path == self.path
  }

  /// Says that the port is served.
  package static let health = Page("GET", "/healthz") { _ in PageResponse(text: "serving\n") }
}

/// A request for a page.
package struct PageRequest: Sendable {
  package var method: String
  /// The path without the query.
  package var path: String
  /// What follows the question mark, undecoded; nil without one.
  package var query: String?
  /// Names in lower case, in the order they came.
  package var headers: [(name: String, value: String)]
  package var body: [UInt8]
  /// The address of the client, as the socket has it.
  package var peerAddress: String

  package init(
    method: String,
    path: String,
    query: String? = nil,
    headers: [(name: String, value: String)] = [],
    body: [UInt8] = [],
    peerAddress: String
  ) {
    self.method = method
    self.path = path
    self.query = query
    self.headers = headers
    self.body = body
    self.peerAddress = peerAddress
  }

  /// The first value of a header.
  package func header(_ name: String) -> String? {
    headers.first { $0.name == name }?.value
  }
}

/// A page's answer.
package struct PageResponse: Sendable {
  package var status: Int
  /// Names in lower case.
  package var headers: [(name: String, value: String)]
  /// As it is sent: all who are sent a response that a page keeps have the same memory.
  let sentBody: ByteBuffer

  package init(status: Int = 200, headers: [(name: String, value: String)] = [], body: [UInt8] = []) {
    self.status = status
    self.headers = headers
    sentBody = ByteBuffer(bytes: body)
  }

  package init(status: Int = 200, text: String) {
    self.init(status: status, headers: [("content-type", "text/plain; charset=utf-8")], body: Array(text.utf8))
  }

  /// A copy.
  package var body: [UInt8] { Array(sentBody.readableBytesView) }

  /// The fields as they are sent: the page's own, and those that the protocol wants.
  var sentFields: [(name: String, value: String)] {
    // RFC 9110 §6.6.1.
    var fields = headers + [("date", HTTPDate.now)]
    // RFC 9110 §8.6: none in an answer that has no body by its status.
    if status != 204 { fields.append(("content-length", String(sentBody.readableBytes))) }
    return fields
  }
}

/// The pages of a port.
struct PageTable: Sendable {
  private let pages: [Page]
  /// Who may read them, and gRPC-Web's answers, across origins.
  let cors: CORSPolicy

  init(_ pages: [Page], cors: CORSPolicy = .none) {
    self.pages = pages
    self.cors = cors
  }

  enum Match {
    case page(Page)
    case wrongMethod(allowed: String)
    case none
  }

  func find(method: String, path: String) -> Match {
    let candidates = pages.filter { $0.answers(path) }
    guard !candidates.isEmpty else { return .none }
    let wanted = method == "HEAD" ? "GET" : method
    if let page = candidates.first(where: { $0.method == wanted }) { return .page(page) }
    let allowed = candidates.map { $0.method == "GET" ? "GET, HEAD" : $0.method }
    return .wrongMethod(allowed: allowed.joined(separator: ", "))
  }

  /// Answers a request, also one that no page is for.
  func answer(_ request: PageRequest) async -> PageResponse {
    if let preflight = cors.preflight(request) { return preflight }
    // What only reads is read as any link is followed.
    guard ["GET", "HEAD"].contains(request.method) || !cors.isForeign(request) else {
      return PageResponse(status: 403, text: "another site's page may not ask for this\n")
    }
    var response = await pageAnswer(request)
    // What everybody may read says so itself. A browser takes two answers to that question for none.
    guard !response.headers.contains(where: { $0.name == "access-control-allow-origin" }) else { return response }
    response.headers += cors.fields(origin: request.header("origin"))
    return response
  }

  private func pageAnswer(_ request: PageRequest) async -> PageResponse {
    switch find(method: request.method, path: request.path) {
    case .page(let page):
      return await page.handle(request)
    case .wrongMethod(let allowed):
      var response = PageResponse(status: 405, text: "method not allowed\n")
      response.headers.append(("allow", allowed))
      return response
    case .none:
      return PageResponse(status: 404, text: "not found\n")
    }
  }

  /// Path and query of a request target.
  static func split(_ target: String) -> (path: String, query: String?) {
    guard let mark = target.utf8.firstIndex(of: UInt8(ascii: "?")) else { return (target, nil) }
    return (String(target[..<mark]), String(target[target.utf8.index(after: mark)...]))
  }
}
