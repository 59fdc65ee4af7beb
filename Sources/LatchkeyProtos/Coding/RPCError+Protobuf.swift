package import GRPC
package import Protobuf

extension RPCError {
  /// What the peer learns of a message that could not be read or written.
  package init(_ error: ProtobufError) {
    switch error {
    case .malformed:
      self.init(.invalidArgument, "the message is not a valid encoding of its type")
    case .needsMoreMemory:
      self.init(.resourceExhausted, "the message needs more memory than a message may")
    case .invalidUTF8(let field):
      self = .invalid(field, "is not valid UTF-8")
    }
  }
}
