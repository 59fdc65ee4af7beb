/// What an HTTP server answered.
package struct HTTPResponse: Sendable, Equatable {
  package var status: Int
  package var body: [UInt8]

  package init(status: Int, body: [UInt8]) {
    self.status = status
    self.body = body
  }

  package var isSuccess: Bool { (200..<300).contains(status) }
  /// Whether the server may take the same a moment later.
  package var isRetryable: Bool { status == 429 || status >= 500 }
}
