import LatchkeyModel
import Logging
import ServiceRuntime
import Storage

/// Finds in the rows which sessions ended, and what else those who watch want to know, several times a second, where other
/// instances end them too: so this instance refuses them, and tells those that listen to it, within that time.
///
/// The same finds what this instance ended itself with a commit whose answer never came.
package struct EndedSessionTail: Surrounded {
  private let endings: any SharedEndings
  private let endedSessions: EndedSessions
  private let news: SessionNews
  /// A server that was cut off from the others goes on answering what it knows for a while. A sign of life it can take only
  /// while the others follow it: so what it says counts from the last one.
  private let membership: Membership?
  let surroundings: Surroundings
  /// What was known at the start.
  package private(set) var start: EndingsMark?

  /// Returns when everything is known that matters still.
  init(
    _ endings: any SharedEndings, _ endedSessions: EndedSessions, _ news: SessionNews, membership: Membership? = nil,
    _ surroundings: Surroundings
  ) async throws(StorageError) {
    self.endings = endings
    self.endedSessions = endedSessions
    self.news = news
    self.membership = membership
    self.surroundings = surroundings
    start = try await look(after: nil)
  }

  var tasks: [BackgroundTask] {
    [
      BackgroundTask("ended sessions of all instances") { await run() },
      // By itself, for it may take long, and no token is accepted for long without a look.
      BackgroundTask("old news") { while await pause(Limits.newsForgottenInterval) { await forget() } },
    ]
  }

  /// Looks again and again until cancelled.
  private func run() async {
    var mark = start
    var warning = PatientWarning()
    while await pause(Limits.endingsInterval) {
      do throws(StorageError) {
        mark = try await look(after: mark)
        warning.succeeded()
      } catch {
        guard warning.failed() else { continue }
        logger.warning(
          "cannot read which sessions other instances ended; without that no token is accepted",
          metadata: ["cause": "\(error)"])
      }
    }
  }

  /// What all who look have found long ago. Where it does not work it is done next time, or by another instance.
  private func forget() async {
    let time = clock.now() - Limits.newsKept
    while let count = try? await endings.forgetNews(before: time, limit: Limits.purgeRows), count >= Limits.purgeRows {}
  }

  /// Looks once, and tells what is new.
  package func look(after mark: EndingsMark?) async throws(StorageError) -> EndingsMark {
    // Before the rows are read: what ends from here on may be missing.
    let life = membership?.life
    let start = min(.now, life?.heard ?? .now)
    let since = clock.now() - endedSessions.retention - Limits.endingsDelay
    let found = try await endings.ended(after: mark, since: since)
    if let life, life.server != found.mark.server {
      throw StorageError(
        .unavailable, operation: "find newly ended sessions",
        detail: "a server answered that did not take the last sign of life")
    }
    var changes = found.news ?? SessionChanges()
    changes.ended = found.sessions
    if !changes.isEmpty { news.found(changes) }
    if found.news == nil, mark != nil { news.newsMissed() }
    endedSessions.isKnown(at: start)
    return found.mark
  }
}
