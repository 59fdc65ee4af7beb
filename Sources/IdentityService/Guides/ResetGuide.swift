import Domain
import GRPC
import LatchkeyModel
import LatchkeyProtos
import ServiceRuntime
import Storage

extension GuideHandlers {
  /// Begins a guide anew for the caller; with a service's credential, for the subjects that are named.
  package func resetGuide(
    _ request: IdentityV1.ResetGuideRequest,
    context: ServerContext
  ) async throws(RPCError) -> IdentityV1.ResetGuideResponse {
    let guide = try guide(request.guideID).id
    let subjects = try subjects(request, context)
    let changed = try await perform(ResetGuide(guide, of: subjects, at: clock.now()))
    return IdentityV1.ResetGuideResponse(resetCount: Int64(changed.count))
  }

  private func subjects(
    _ request: IdentityV1.ResetGuideRequest, _ context: ServerContext
  ) throws(RPCError) -> [SubjectID] {
    guard context.caller == .service else {
      guard request.subs.isEmpty else {
        throw RPCError(.permissionDenied, "subs: only another service may name subjects", reason: "SERVICE_ONLY")
      }
      return [try context.callerSubject()]
    }
    guard (1...Limits.guideCohort).contains(request.subs.count) else {
      throw .invalid("subs", "must name 1 to \(Limits.guideCohort) subjects")
    }
    var subjects: [SubjectID] = []
    for (index, text) in request.subs.enumerated() {
      subjects.append(try RequestFields.subjectID(text, "subs[\(index)]", in: cell))
    }
    return subjects
  }
}
