import GRPC
import LatchkeyProtos
import Storage

extension GrantHandlers {
  /// How an account may be named to a screen that is not signed in yet: masked, and no more than that.
  package func describeSubject(
    _ request: IdentityV1.DescribeSubjectRequest,
    context: ServerContext
  ) async throws(RPCError) -> IdentityV1.DescribeSubjectResponse {
    let subject = try RequestFields.subjectID(request.sub, "sub")
    let identities = try await core.stored { () throws(StorageError) in
      try await core.links.identities(of: subject)
    }
    return IdentityV1.DescribeSubjectResponse(mask: identities.first?.mask ?? "")
  }
}
