import Domain
import GRPC
import LatchkeyModel
import LatchkeyProtos
import Storage

extension GuideHandlers {
  /// Every guide, with how far the caller has come.
  package func listGuides(
    _ request: IdentityV1.ListGuidesRequest,
    context: ServerContext
  ) async throws(RPCError) -> IdentityV1.ListGuidesResponse {
    let subject = try context.callerSubject()
    let rows = try await look(FindGuideProgress(of: subject))
    return IdentityV1.ListGuidesResponse(
      guides: guides.current.guides.map { guide in
        IdentityV1.GuideSummary(
          guideID: guide.id.description,
          version: guide.version,
          progress: Self.message(rows.first { $0.guide == guide.id }, in: guide, given: guide.steps)
        )
      })
  }
}
