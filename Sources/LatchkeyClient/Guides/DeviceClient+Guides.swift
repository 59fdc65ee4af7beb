import GRPC
import LatchkeyProtos

extension DeviceClient {
  /// Every guide there is, without its steps.
  public func guides() async throws(ClientError) -> [GuideView] {
    let service = IdentityV1.GuideServiceClient(channel: identity)
    let answer = try await authorized { options throws(RPCError) in
      try await service.listGuides(IdentityV1.ListGuidesRequest(), options: options)
    }
    return answer.guides.map { GuideView(id: $0.guideID, version: $0.version, steps: [], progress: $0.progress) }
  }

  public func guide(_ id: String) async throws(ClientError) -> GuideView {
    let service = IdentityV1.GuideServiceClient(channel: identity)
    let answer = try await authorized { options throws(RPCError) in
      try await service.getGuide(IdentityV1.GetGuideRequest(guideID: id), options: options)
    }
    return GuideView(id: answer.guideID, version: answer.version, steps: answer.steps, progress: answer.progress)
  }

  /// Says what became of a step. Errors: the service's `REVISION_MISMATCH` when another device was faster.
  public func reportStep(
    _ step: String,
    of guide: String,
    _ outcome: GuideOutcome,
    expectedRevision: Int64
  ) async throws(ClientError) -> GuideView {
    let service = IdentityV1.GuideServiceClient(channel: identity)
    let request = IdentityV1.ReportStepRequest(
      guideID: guide, stepID: step, outcome: outcome.proto, expectedRevision: expectedRevision)
    let answer = try await authorized { options throws(RPCError) in
      try await service.reportStep(request, options: options)
    }
    return GuideView(id: guide, version: 0, steps: [], progress: answer.progress)
  }

  /// Begins a guide anew.
  public func resetGuide(_ id: String) async throws(ClientError) {
    let service = IdentityV1.GuideServiceClient(channel: identity)
    _ = try await authorized { options throws(RPCError) in
      try await service.resetGuide(IdentityV1.ResetGuideRequest(guideID: id), options: options)
    }
  }
}
