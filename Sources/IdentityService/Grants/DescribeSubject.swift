import Domain
import GRPC
import LatchkeyModel
import LatchkeyProtos

extension GrantHandlers {
  /// How an account may be named to a screen that is not signed in yet: masked, and no more than that. And which key
  /// the device of one of its sessions has, so that what it signs can be told from what another device signs.
  package func describeSubject(
    _ request: IdentityV1.DescribeSubjectRequest,
    context: ServerContext
  ) async throws(RPCError) -> IdentityV1.DescribeSubjectResponse {
    let subject = try RequestFields.subjectID(request.sub, "sub", in: cell)
    let device = try await deviceKey(request.sid, of: subject)
    return IdentityV1.DescribeSubjectResponse(
      mask: try await look(FindMask(of: subject)),
      deviceKeyThumbprint: device?.thumbprint ?? "",
      deviceKeyLetIn: device?.isLetIn ?? false
    )
  }

  private func deviceKey(
    _ text: String, of subject: SubjectID
  ) async throws(RPCError) -> (thumbprint: String, isLetIn: Bool)? {
    guard !text.isEmpty else { return nil }
    let id = try RequestFields.sessionID(text, "sid", in: cell)
    guard let session = try await look(FindSession(id)), session.subject == subject, session.isLive(at: clock.now()),
      let key = session.device.keyThumbprint
    else { return nil }
    return (key, try await look(IsLetIn(id)))
  }
}
