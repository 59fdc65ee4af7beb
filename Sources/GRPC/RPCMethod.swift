/// Which sides of a call send more than one message.
package enum RPCKind: Sendable {
  case unary
  case serverStreaming
  case clientStreaming
  case bidirectional

  /// Whether the client sends a stream of messages.
  package var hasRequestStream: Bool { self == .clientStreaming || self == .bidirectional }
}

/// A method as the wire names it.
package struct RPCMethod: Sendable, Hashable {
  /// `/package.Service/Method`.
  package let path: String
  package let kind: RPCKind

  package init(path: String, kind: RPCKind) {
    self.path = path
    self.kind = kind
  }
}
