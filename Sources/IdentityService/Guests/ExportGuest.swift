import GRPC
import LatchkeyModel
import LatchkeyProtos
import Storage

extension GuestHandlers {
  /// Everything that is known of the caller, guest or account, in parts.
  ///
  /// The version of the records is taken before the first of them is read: what is written meanwhile may be in the
  /// export, and counts as not exported.
  package func exportGuest(
    _ request: IdentityV1.ExportGuestRequest,
    responses: ResponseWriter<IdentityV1.ExportGuestResponse>,
    context: ServerContext
  ) async throws(RPCError) {
    let id = try context.callerSubject()
    let caller = try context.callerSession()
    let now = core.clock.now()
    let found = try await core.stored { () throws(StorageError) in
      (try await core.subjects.standing(of: id), try await core.sessions.session(caller))
    }
    guard let standing = found.0, let session = found.1 else { throw .sessionRevoked }
    func write(_ part: IdentityV1.ExportGuestResponse.Part) async throws(RPCError) {
      try await responses.write(IdentityV1.ExportGuestResponse(part: part))
    }
    try await write(
      .subject(
        IdentityV1.ExportedSubject(
          sub: id.description,
          isGuest: standing.subject.isGuest,
          createdAt: GoogleProtobuf.Timestamp(standing.subject.createdAt),
          lastSeenAt: GoogleProtobuf.Timestamp(standing.lastSeenAt),
          profile: CommonV1.Profile(standing.subject.profile)
        )))
    for identity in try await core.stored({ () throws(StorageError) in try await core.links.identities(of: id) }) {
      try await write(.identity(LinkHandlers.message(identity)))
    }
    for device in try await core.stored({ () throws(StorageError) in try await core.devices.devices(of: id, at: now) })
    {
      try await write(
        .device(
          IdentityV1.ExportedDevice(
            keyThumbprint: device.keyThumbprint,
            label: device.label ?? "",
            platform: device.platform ?? "",
            osVersion: device.osVersion ?? "",
            appVersion: device.appVersion ?? "",
            firstSeenAt: GoogleProtobuf.Timestamp(device.firstSeenAt),
            lastSeenAt: GoogleProtobuf.Timestamp(device.lastSeenAt)
          )))
    }
    let sessions = try await core.stored { () throws(StorageError) in
      try await core.sessions.live(of: id, at: now, limit: Limits.listedSessions)
    }
    for session in sessions {
      try await write(.session(SessionHandlers.message(session, for: caller)))
    }
    for guide in try await core.stored({ () throws(StorageError) in try await core.guideProgress.progress(of: id) }) {
      try await write(.guide(guideMessage(guide)))
    }
    var summary = IdentityV1.ExportSummary()
    if let records = core.recordKeeper {
      let (count, version) = try await records.export(of: session) { page throws(RPCError) in
        try await write(.records(IdentityV1.ExportedRecords(records: page)))
      }
      (summary.records, summary.recordsVersion) = (count, version)
    }
    try await write(.complete(summary))
    // What the caller never took counts as not exported: the retention would delete the only copy.
    try await responses.taken()
    let version = summary.recordsVersion
    try await core.stored { () throws(StorageError) in
      try await core.subjects.noteExport(of: id, recordsVersion: version, at: now)
    }
  }

  private func guideMessage(_ stored: StoredGuideProgress) -> IdentityV1.ExportedGuide {
    let guide = core.guides.current.guides.first { $0.id == stored.guide }
    return IdentityV1.ExportedGuide(
      guideID: stored.guide.description,
      progress: guide.map { GuideHandlers.message(stored, in: $0, given: $0.steps) }
        ?? IdentityV1.GuideProgress(revision: stored.progress.revision)
    )
  }
}
