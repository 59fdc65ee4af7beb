import GRPC
import LatchkeyModel
import ServiceRuntime

extension ServerContext {
  /// The session that a person's call comes from.
  func callerSession() throws(RPCError) -> SessionID {
    guard let session = SessionID(try requireSubject().sessionID) else { throw .tokenInvalid }
    return session
  }
}
