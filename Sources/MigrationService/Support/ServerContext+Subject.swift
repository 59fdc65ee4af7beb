import GRPC
import LatchkeyModel
import ServiceRuntime

extension ServerContext {
  /// Whose records the call is about: the caller's own, never anyone's that a request names.
  func callingSubject() throws(RPCError) -> SubjectID {
    try requireSubject().id
  }
}

extension AuthenticatedSubject {
  /// Errors: `UNAUTHENTICATED` for a subject that identity never gave out.
  var id: SubjectID {
    get throws(RPCError) {
      guard let id = SubjectID(subject) else {
        throw RPCError(.unauthenticated, "the access token does not hold", reason: "TOKEN_INVALID")
      }
      return id
    }
  }
}
