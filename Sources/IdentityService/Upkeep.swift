import LatchkeyModel
import Logging
import ServiceRuntime

/// What the service does by itself: offers merges, keeps the signing keys, forgets what is over.
package struct Upkeep: Sendable {
  private let core: IdentityCore

  package init(_ core: IdentityCore) {
    self.core = core
  }

  package var tasks: [BackgroundTask] {
    var tasks = [
      BackgroundTask("signing keys") { await keepSigningKeys() },
      BackgroundTask("purge") { await purge() },
      BackgroundTask("code courier") { await core.courier.run() },
      BackgroundTask("refusals") { await core.refusals.run() },
      BackgroundTask("revocation beat") { await beat() },
      BackgroundTask("guest count") { await countGuests() },
      BackgroundTask("guides") { await keepGuides() },
    ]
    tasks.append(BackgroundTask("guest retention") { await keepGuests() })
    let verification = AuditVerification(core.audit, core.auditChain)
    tasks.append(
      BackgroundTask("audit log") {
        await verification.report(to: core.logger)
        await trimAudit()
      })
    if let purger = core.purger { tasks.append(BackgroundTask("record purges") { await purger.run() }) }
    if let migrator = core.migrator { tasks.append(BackgroundTask("merges") { await migrator.run() }) }
    return tasks
  }

  private func keepSigningKeys() async {
    while await pause(Limits.signingKeyRescan) {
      do throws(SigningKeyError) {
        try core.tokens.keys.maintain()
      } catch {
        // The keys in memory go on signing; an operator has to mend the directory before they are due.
        core.logger.error("the signing keys cannot be maintained", metadata: ["cause": "\(error)"])
      }
    }
  }

  private func beat() async {
    while await pause(Limits.revocationBeat) { core.endedSessions.watches.beat() }
  }

  private func keepGuides() async {
    while await pause(Limits.guidesInterval) { refreshGuides() }
  }

  package func refreshGuides() {
    if core.guides.refresh() { core.guideWatches.definitionsChanged() }
  }

  private func trimAudit() async {
    repeat {
      await trimAuditOnce()
      await core.refusals.count()
    } while await pause(Limits.auditTrimInterval)
  }

  /// Forgets security events beyond their retention, in small steps.
  package func trimAuditOnce() async {
    guard let retention = core.auditRetention else { return }
    let now = core.clock.now()
    while !Task.isCancelled {
      let trimmed = try? await core.audit.trim(before: now - retention, limit: Limits.auditTrimRows, at: now)
      guard let trimmed, trimmed >= Limits.auditTrimRows else { return }
    }
  }

  private func keepGuests() async {
    while await pause(Limits.retentionInterval) { await keepGuestsOnce() }
  }

  /// Forgets guests that nobody uses, so that there is room for new ones.
  package func keepGuestsOnce() async {
    await core.guestRoom.count()
    await core.retention.sweep(givesUpData: core.guestRoom.isFull)
    await core.guestRoom.count()
  }

  private func countGuests() async {
    repeat { await core.guestRoom.count() } while await pause(Limits.guestCountInterval)
  }

  private func purge() async {
    while await pause(Limits.purgeInterval) {
      await purgeOnce()
    }
  }

  /// Forgets in small steps, so that callers get their turns between them.
  package func purgeOnce() async {
    let now = core.clock.now()
    while !Task.isCancelled {
      let purged = try? await core.sessions.purge(
        endedBefore: now - Limits.endedSessionRetention, at: now, limit: Limits.purgeRows)
      guard let purged, purged >= Limits.purgeRows else { return }
    }
  }

  /// False when the service is stopping.
  private func pause(_ duration: Duration) async -> Bool {
    do {
      try await Task.sleep(for: duration)
      return true
    } catch {
      return false
    }
  }
}
