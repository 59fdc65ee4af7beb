import Domain
import GRPC
import LatchkeyModel
import LatchkeyProtos

extension AdminHandlers {
  package func getSubject(
    _ request: IdentityV1.GetSubjectRequest,
    context: ServerContext
  ) async throws(RPCError) -> IdentityV1.GetSubjectResponse {
    let id: SubjectID
    switch request.who {
    case .sub(let text): id = try RequestFields.subjectID(text, "sub", in: cell)
    case .identifier(let text):
      let identifier = try RequestFields.identifier(text, "identifier")
      guard let owner = try await look(FindOwner(of: identifier)) else { throw .subjectNotFound }
      id = owner
    case nil: throw .invalid("who", "is missing: send sub or identifier")
    }
    guard let standing = try await look(FindStanding(of: id)) else { throw .subjectNotFound }
    let identities = try await look(ListIdentities(of: id))
    let live = try await look(LiveSessions(of: id, at: clock.now(), limit: Limits.listedSessions))
    let subject = standing.subject
    var response = IdentityV1.GetSubjectResponse(
      sub: id.description,
      createdAt: GoogleProtobuf.Timestamp(subject.createdAt),
      lastSeenAt: GoogleProtobuf.Timestamp(standing.lastSeenAt),
      disabledAt: subject.disabledAt.map { GoogleProtobuf.Timestamp($0) },
      exportedAt: standing.exportedAt.map { GoogleProtobuf.Timestamp($0) },
      profile: CommonV1.Profile(subject.profile),
      identities: identities.map { LinkHandlers.message($0) },
      sessions: live.map { SessionHandlers.message($0, for: nil) }
    )
    switch subject.kind {
    case .guest: response.kind = .guest
    case .account: response.kind = .account
    case .merged(let account): (response.kind, response.mergedInto) = (.merged, account.description)
    case .deleted: response.kind = .deleted
    }
    return response
  }
}
