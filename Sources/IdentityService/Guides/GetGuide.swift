import GRPC
import LatchkeyModel
import LatchkeyProtos
import Storage

extension GuideHandlers {
  /// The steps to show and which of them is next. Whoever completed the guide is given no steps, so that their app has
  /// nothing to watch for.
  package func getGuide(
    _ request: IdentityV1.GetGuideRequest,
    context: ServerContext
  ) async throws(RPCError) -> IdentityV1.GetGuideResponse {
    let subject = try context.callerSubject()
    let guide = try guide(request.guideID)
    guard request.knownVersion >= 0 else { throw .invalid("known_version", "must not be negative") }
    let stored = try await progress(of: subject, in: guide.id)
    let isCompleted = stored?.progress.status == .completed
    let known = request.knownVersion == 0 ? guide.version : request.knownVersion
    let steps = isCompleted ? [] : guide.steps(upTo: known)
    return IdentityV1.GetGuideResponse(
      guideID: guide.id.description,
      version: guide.version,
      steps: steps.map { step in
        IdentityV1.GuideStep(
          stepID: step.id.description,
          page: step.page,
          target: step.target,
          messageKey: step.messageKey,
          reverse: step.isReversed,
          sinceVersion: step.sinceVersion
        )
      },
      progress: Self.message(stored, in: guide, given: steps)
    )
  }
}
