import GRPC
import LatchkeyModel
import LatchkeyProtos
import Storage

extension AdminHandlers {
  package func getSubject(
    _ request: IdentityV1.GetSubjectRequest,
    context: ServerContext
  ) async throws(RPCError) -> IdentityV1.GetSubjectResponse {
    let id: SubjectID
    switch request.who {
    case .sub(let text): id = try RequestFields.subjectID(text, "sub")
    case .identifier(let text):
      let identifier = try RequestFields.identifier(text, "identifier")
      let owner = try await stored { () throws(StorageError) in try await subjects.owner(of: identifier) }
      guard let owner else { throw .subjectNotFound }
      id = owner
    case nil: throw .invalid("who", "is missing: send sub or identifier")
    }
    let now = clock.now()
    let found = try await stored { () throws(StorageError) in
      (
        try await subjects.standing(of: id), try await links.identities(of: id),
        try await sessions.live(of: id, at: now, limit: Limits.listedSessions)
      )
    }
    guard let standing = found.0 else { throw .subjectNotFound }
    let subject = standing.subject
    var response = IdentityV1.GetSubjectResponse(
      sub: id.description,
      createdAt: GoogleProtobuf.Timestamp(subject.createdAt),
      lastSeenAt: GoogleProtobuf.Timestamp(standing.lastSeenAt),
      disabledAt: subject.disabledAt.map { GoogleProtobuf.Timestamp($0) },
      exportedAt: standing.exportedAt.map { GoogleProtobuf.Timestamp($0) },
      profile: CommonV1.Profile(subject.profile),
      identities: found.1.map { LinkHandlers.message($0) },
      sessions: found.2.map { SessionHandlers.message($0, for: nil) }
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
