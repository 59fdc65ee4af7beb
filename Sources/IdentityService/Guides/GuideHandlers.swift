import Domain
import GRPC
import LatchkeyModel
import LatchkeyProtos
import Storage

/// Answers `latchkey.identity.v1.GuideService`, one file for each method.
package struct GuideHandlers: IdentityV1.GuideService, Deciding {
  let domain: IdentityDomain
  let guides: GuideFile
  let guideWatches: GuideWatches
  let endedSessions: EndedSessions
  let surroundings: Surroundings

  func guide(_ text: String) throws(RPCError) -> GuideDefinition {
    let id = try Self.id(text, "guide_id")
    guard let guide = guides.current[id] else {
      throw RPCError(.notFound, "there is no such guide", reason: "GUIDE_NOT_FOUND")
    }
    return guide
  }

  func progress(of subject: SubjectID, in guide: GuideID) async throws(RPCError) -> StoredGuideProgress? {
    try await look(FindGuideProgress(of: subject, in: guide)).first
  }

  static func id(_ text: String, _ field: String) throws(RPCError) -> GuideID {
    guard let id = GuideID(text) else {
      throw .invalid(field, "must be 1 to \(GuideID.maximumLength) lower-case letters, digits, '.', '_' or '-'")
    }
    return id
  }

  /// The progress as an app sees it that was given these steps of the guide.
  static func message(
    _ stored: StoredGuideProgress?, in guide: GuideDefinition, given steps: [GuideStep]
  ) -> IdentityV1.GuideProgress {
    let progress = stored?.progress ?? GuideProgress()
    let updatedAt = stored.map { GoogleProtobuf.Timestamp($0.updatedAt) }
    if progress.status == .completed {
      return IdentityV1.GuideProgress(
        status: .completed, cursor: -1, revision: progress.revision, updatedAt: updatedAt)
    }
    // The first step given that does not lie behind.
    let behind = Set(guide.steps.prefix(progress.cursor(in: guide)).map(\.id))
    let cursor = steps.firstIndex { !behind.contains($0.id) } ?? steps.count
    return IdentityV1.GuideProgress(
      status: progress.status == .active ? .active : .notStarted,
      cursor: Int32(cursor),
      revision: progress.revision,
      stepID: cursor < steps.count ? steps[cursor].id.description : "",
      updatedAt: updatedAt
    )
  }
}
