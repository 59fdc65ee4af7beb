import Domain
import GRPC
import LatchkeyModel
import LatchkeyProtos
import Storage

/// Everything that is known of a guest or an account, for its owner.
struct SubjectExport: Deciding {
  let domain: IdentityDomain
  let guides: GuideFile
  /// Nil where there is no record store.
  let records: RecordKeeper?
  let surroundings: Surroundings

  /// Writes part after part. The version of the records is taken before the first of them is read: what is written
  /// meanwhile may be in the export, and counts as not exported.
  ///
  /// - Parameter caller: the session that asks, whose token reads the records.
  func write(
    _ id: SubjectID, to caller: SessionID, _ responses: ResponseWriter<IdentityV1.ExportGuestResponse>
  ) async throws(RPCError) {
    let now = clock.now()
    guard let standing = try await look(FindStanding(of: id)), let session = try await look(FindSession(caller)) else {
      throw .sessionRevoked
    }
    func write(_ part: IdentityV1.ExportGuestResponse.Part) async throws(RPCError) {
      try await responses.write(IdentityV1.ExportGuestResponse(part: part))
    }
    try await write(.subject(Self.message(standing)))
    for identity in try await look(ListIdentities(of: id)) {
      try await write(.identity(LinkHandlers.message(identity)))
    }
    for device in try await look(ListDevices(of: id, at: now)) {
      try await write(.device(Self.message(device)))
    }
    let live = try await look(LiveSessions(of: id, at: now, limit: Limits.listedSessions))
    for session in live { try await write(.session(SessionHandlers.message(session, for: caller))) }
    for guide in try await look(FindGuideProgress(of: id)) {
      try await write(.guide(message(guide)))
    }
    var summary = IdentityV1.ExportSummary()
    if let records {
      let (count, version) = try await records.export(of: session) { page throws(RPCError) in
        try await write(.records(IdentityV1.ExportedRecords(records: page)))
      }
      (summary.records, summary.recordsVersion) = (count, version)
    }
    try await write(.complete(summary))
    // What the caller never took counts as not exported: the retention would delete the only copy.
    try await responses.taken()
    let version = summary.recordsVersion
    try await perform(NoteExport(of: id, recordsVersion: version, at: now))
  }

  private static func message(_ standing: SubjectStanding) -> IdentityV1.ExportedSubject {
    IdentityV1.ExportedSubject(
      sub: standing.subject.id.description,
      isGuest: standing.subject.isGuest,
      createdAt: GoogleProtobuf.Timestamp(standing.subject.createdAt),
      lastSeenAt: GoogleProtobuf.Timestamp(standing.lastSeenAt),
      profile: CommonV1.Profile(standing.subject.profile)
    )
  }

  private static func message(_ device: KnownDevice) -> IdentityV1.ExportedDevice {
    IdentityV1.ExportedDevice(
      keyThumbprint: device.keyThumbprint,
      label: device.label ?? "",
      platform: device.platform ?? "",
      osVersion: device.osVersion ?? "",
      appVersion: device.appVersion ?? "",
      firstSeenAt: GoogleProtobuf.Timestamp(device.firstSeenAt),
      lastSeenAt: GoogleProtobuf.Timestamp(device.lastSeenAt)
    )
  }

  private func message(_ stored: StoredGuideProgress) -> IdentityV1.ExportedGuide {
    let guide = guides.current.guides.first { $0.id == stored.guide }
    return IdentityV1.ExportedGuide(
      guideID: stored.guide.description,
      progress: guide.map { GuideHandlers.message(stored, in: $0, given: $0.steps) }
        ?? IdentityV1.GuideProgress(revision: stored.progress.revision)
    )
  }
}
