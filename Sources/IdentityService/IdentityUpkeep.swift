import ServiceRuntime

/// What the service does by itself, room by room.
package struct IdentityUpkeep: Sendable {
  package let sessions: SessionUpkeep
  package let guests: GuestUpkeep
  package let guides: GuideUpkeep
  package let audit: AuditUpkeep
  package let courier: CodeCourier
  package let purger: RecordPurger?
  package let migrator: Migrator?

  init(_ configuration: IdentityConfiguration, _ parts: IdentityParts, _ surroundings: Surroundings) {
    let (stores, clock, logger) = (parts.stores, surroundings.clock, surroundings.logger)
    sessions = SessionUpkeep(
      keys: parts.tokens.keys, sessions: stores.sessions, endedSessions: parts.endedSessions,
      surroundings: surroundings)
    guests = GuestUpkeep(
      room: parts.guestRoom,
      retention: GuestRetention(
        period: configuration.guestRetention, subjects: stores.subjects, records: parts.records, clock: clock,
        logger: logger))
    guides = GuideUpkeep(guides: parts.guides, guideWatches: parts.guideWatches)
    audit = AuditUpkeep(
      audit: stores.audit, auditChain: parts.auditChain,
      retention: configuration.auditRetention == .zero ? nil : configuration.auditRetention,
      refusals: RefusalRecorder(stores.audit, limit: configuration.auditRefusals, clock: clock, logger: logger),
      surroundings: surroundings)
    courier = parts.evidence.codes.courier
    purger = parts.removal.purger
    migrator = parts.migrator
  }

  package var tasks: [BackgroundTask] {
    var tasks = sessions.tasks + guests.tasks + guides.tasks + audit.tasks
    tasks.append(BackgroundTask("code courier") { await courier.run() })
    if let purger { tasks.append(BackgroundTask("record purges") { await purger.run() }) }
    if let migrator { tasks.append(BackgroundTask("merges") { await migrator.run() }) }
    return tasks
  }
}
