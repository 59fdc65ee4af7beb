import LatchkeyModel
import Logging
import ServiceRuntime
import Storage

/// Keeps the keys that tokens are signed by, and forgets sessions that are over.
package struct SessionUpkeep: Surrounded {
  let keys: SigningKeyRing
  let sessions: any SessionStore
  let endedSessions: EndedSessions
  let surroundings: Surroundings

  var tasks: [BackgroundTask] {
    [
      BackgroundTask("signing keys") { await keepSigningKeys() },
      BackgroundTask("purge") { await purge() },
      BackgroundTask("revocation beat") { await beat() },
    ]
  }

  private func keepSigningKeys() async {
    while await pause(Limits.signingKeyRescan) {
      do throws(SigningKeyError) {
        try keys.maintain()
      } catch {
        // The keys in memory go on signing; an operator has to mend the directory before they are due.
        logger.error("the signing keys cannot be maintained", metadata: ["cause": "\(error)"])
      }
    }
  }

  private func beat() async {
    while await pause(Limits.revocationBeat) { endedSessions.watches.beat() }
  }

  private func purge() async {
    while await pause(Limits.purgeInterval) {
      await purgeOnce()
    }
  }

  /// Forgets in small steps, so that callers get their turns between them.
  package func purgeOnce() async {
    let now = clock.now()
    while !Task.isCancelled {
      let purged = try? await sessions.purge(
        endedBefore: now - Limits.endedSessionRetention, at: now, limit: Limits.purgeRows)
      guard let purged, purged >= Limits.purgeRows else { return }
    }
  }
}
