import GRPC
import LatchkeyModel
import ServiceRuntime

extension ServerContext {
  /// The session that a person's call comes from.
  func callerSession() throws(RPCError) -> SessionID {
    guard let session = SessionID(try requireSubject().sessionID) else { throw .tokenInvalid }
    return session
  }

  /// The guest or account that calls.
  func callerSubject() throws(RPCError) -> SubjectID {
    guard let subject = SubjectID(try requireSubject().subject) else { throw .tokenInvalid }
    return subject
  }
}

extension IdentityCore {
  /// Refuses a caller whose token is not good for what this call asks for, beyond what the method itself needs.
  func require(_ requirement: AccessRequirement, of context: ServerContext) throws(RPCError) {
    try requirement.check(try context.requireSubject(), stepUp, at: clock.now())
  }
}
