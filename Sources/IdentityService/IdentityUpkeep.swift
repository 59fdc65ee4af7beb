import ServiceRuntime

/// What the service does by itself, room by room.
package struct IdentityUpkeep: Sendable {
  package let sessions: SessionUpkeep
  package let guests: GuestUpkeep
  package let guides: GuideUpkeep
  package let audit: AuditUpkeep
  package let courier: CodeCourier
  package let notices: NoticeCourier
  package let purger: RecordPurger?
  package let migrator: Migrator?

  init(_ configuration: IdentityConfiguration, _ parts: IdentityParts, _ surroundings: Surroundings) {
    let (domain, clock, logger) = (parts.domain, surroundings.clock, surroundings.logger)
    sessions = SessionUpkeep(
      keys: parts.tokens.keys, domain: domain, endedSessions: parts.endedSessions,
      tail: parts.endedSessionTail, surroundings: surroundings)
    guests = GuestUpkeep(
      room: parts.guestRoom,
      retention: GuestRetention(
        period: configuration.guestRetention, domain: domain, records: parts.records,
        purger: parts.removal.purger, surroundings: surroundings))
    guides = GuideUpkeep(guides: parts.guides, guideWatches: parts.guideWatches, documents: parts.documents)
    audit = AuditUpkeep(
      domain: domain, auditChain: parts.auditChain,
      retention: configuration.auditRetention == .zero ? nil : configuration.auditRetention,
      refusals: RefusalRecorder(domain, limit: configuration.auditRefusals, clock: clock, logger: logger),
      sealing: AuditSealing(domain, surroundings), surroundings: surroundings)
    courier = parts.evidence.codes.courier
    notices = parts.notices
    purger = parts.removal.purger
    migrator = parts.migrator
  }

  package var tasks: [BackgroundTask] {
    var tasks = sessions.tasks + guests.tasks + guides.tasks + audit.tasks
    tasks.append(BackgroundTask("code courier") { await courier.run() })
    tasks.append(BackgroundTask("notices to owners") { await notices.run() })
    if let purger { tasks.append(BackgroundTask("record purges") { await purger.run() }) }
    if let migrator { tasks.append(BackgroundTask("merges") { await migrator.run() }) }
    return tasks
  }
}
