import Domain
import LatchkeyModel
import Logging
import ServiceRuntime

/// Keeps the keys that tokens are signed by, and forgets sessions that are over.
package struct SessionUpkeep: Deciding {
  let keys: SigningKeyRing
  let domain: IdentityDomain
  let endedSessions: EndedSessions
  /// Nil where all ends are made here.
  package let tail: EndedSessionTail?
  let surroundings: Surroundings

  var tasks: [BackgroundTask] {
    [
      BackgroundTask("signing keys") { await keepSigningKeys() },
      BackgroundTask("purge") { await purge() },
      BackgroundTask("revocation beat") { await beat() },
    ] + (tail?.tasks ?? [])
  }

  private func keepSigningKeys() async {
    var warning = PatientWarning()
    while await pause(keys.isShared ? Limits.sharedKeysInterval : Limits.signingKeyRescan) {
      do throws(SigningKeyError) {
        try await keys.maintain()
        warning.succeeded()
      } catch {
        // The keys in memory go on signing, shared ones for some minutes; an operator has to mend what they are read from.
        guard !keys.isShared || warning.failed() else { continue }
        logger.error("the signing keys cannot be maintained", metadata: ["cause": "\(error)"])
      }
    }
  }

  private func beat() async {
    while await pause(Limits.revocationBeat) {
      // Who knows nothing is silent: the others go by that.
      if endedSessions.isFresh { endedSessions.watches.beat() }
    }
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
      let purged = try? await domain.perform(
        Forget(endedBefore: now - Limits.endedSessionRetention, at: now, limit: Limits.purgeRows))
      guard let purged, purged >= Limits.purgeRows else { return }
    }
  }
}
