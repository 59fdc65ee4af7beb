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
  package private(set) var start = Reading()

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
    repeat { try await look(&start) } while start.isUnderWay
  }

  /// How far the rows are read.
  package struct Reading: Sendable {
    fileprivate(set) var mark: EndingsMark?
    /// When the look began of which there are more pages.
    fileprivate var begun: ContinuousClock.Instant?

    package init() {}

    /// There are more pages of what the last look found.
    package var isUnderWay: Bool { mark?.place != nil }
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
    var (reading, goesOn) = (start, false)
    var warning = PatientWarning()
    while await goesOn ? true : pause(Limits.endingsInterval) {
      do throws(StorageError) {
        try await look(&reading)
        goesOn = reading.isUnderWay
        warning.succeeded()
      } catch {
        goesOn = false
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

  /// Reads a page, and tells what is new. What is read in pages is known with the last of them, as of when the first was read.
  package func look(_ reading: inout Reading) async throws(StorageError) {
    // Before the rows are read: what ends from here on may be missing.
    let life = membership?.life
    let start = reading.begun ?? min(.now, life?.heard ?? .now)
    let since = clock.now() - endedSessions.retention - Limits.endingsDelay
    let mark = reading.mark
    let found = try await endings.ended(after: mark, since: since, limit: Limits.endingsAtOnce)
    if let life, life.server != found.mark.server {
      throw StorageError(
        .unavailable, operation: "find newly ended sessions",
        detail: "a server answered that did not take the last sign of life")
    }
    var changes = found.news ?? SessionChanges()
    changes.ended = found.sessions
    if !changes.isEmpty { news.found(changes) }
    if found.news == nil, mark != nil { news.newsMissed() }
    reading.mark = found.mark
    reading.begun = found.mark.place == nil ? nil : start
    if found.mark.place == nil { endedSessions.isKnown(at: start) }
  }
}
