import Domain
import GRPC
import LatchkeyModel
import LatchkeyProtos
import Storage

extension GuideHandlers {
  /// Moves the caller's cursor, if the app knows where it stands. A repeated report changes nothing and is no error.
  package func reportStep(
    _ request: IdentityV1.ReportStepRequest,
    context: ServerContext
  ) async throws(RPCError) -> IdentityV1.ReportStepResponse {
    let guide = try guide(request.guideID)
    guard request.expectedRevision >= 0 else { throw .invalid("expected_revision", "must not be negative") }
    let report = ReportStep(
      session: try context.callerSession(),
      guide: guide,
      step: try Self.id(request.stepID, "step_id"),
      outcome: try Self.outcome(request.outcome),
      expectedRevision: request.expectedRevision,
      now: clock.now()
    )
    switch try await perform(report) {
    case .callerEnded: throw .sessionRevoked
    case .taken(let transition, let stored):
      switch transition {
      case .changed, .already: break
      case .revisionMismatch:
        throw RPCError(
          .aborted, "the progress changed elsewhere: get the guide and go on from there", reason: "REVISION_MISMATCH",
          info: [RPCError.KeyValue("revision", "\(stored.progress.revision)")])
      case .notStarted:
        throw RPCError(
          .failedPrecondition, "no page of the guide has appeared yet: report a step as shown first",
          reason: "GUIDE_NOT_STARTED")
      case .notCurrent:
        throw RPCError(
          .failedPrecondition, "the step comes later in the guide", reason: "STEP_NOT_CURRENT",
          info: [RPCError.KeyValue("step_id", guide.steps[stored.progress.cursor(in: guide)].id.description)])
      case .unknownStep: throw RPCError(.notFound, "the guide has no such step", reason: "STEP_NOT_FOUND")
      }
      return IdentityV1.ReportStepResponse(
        progress: Self.message(stored, in: guide, given: guide.steps), changed: transition == .changed)
    }
  }

  private static func outcome(_ outcome: IdentityV1.StepOutcome) throws(RPCError) -> GuideProgress.Outcome {
    switch outcome {
    case .shown: .shown
    case .done: .done
    case .skipped: .skipped
    default: throw .invalid("outcome", "must be SHOWN, DONE or SKIPPED")
    }
  }
}
