import GRPC
import LatchkeyModel
import Synchronization

/// Identity's descriptions of those who scan, kept for a while: most people scan from the same phone again, and a scan
/// should cost no call to another service.
///
/// Neither half of a description changes often, and a stale one lets nobody in: an ended session is refused before it
/// is looked up here, and a key that does not fit is asked for again.
final class SubjectDescriptions: Sendable {
  private struct Entry {
    let description: SubjectDescription
    let until: Timestamp
  }

  private let source: any QRGrantIssuer
  private let capacity: Int
  private let entries = Mutex<[SessionID: Entry]>([:])

  init(_ source: any QRGrantIssuer, capacity: Int = Limits.rememberedDescriptions) {
    self.source = source
    self.capacity = capacity
  }

  /// Throws what identity answered; nothing is remembered then.
  func description(
    of subject: SubjectID,
    session: SessionID,
    isFresh: Bool = false,
    at now: Timestamp,
    deadline: ContinuousClock.Instant?
  ) async throws(RPCError) -> SubjectDescription {
    // A clock set back keeps no entry longer than its time.
    if !isFresh, let known = entries.withLock({ $0[session] }), now < known.until,
      known.until - now <= Limits.descriptionLifetime
    {
      return known.description
    }
    let description = try await source.describe(subject, session: session, deadline: deadline)
    entries.withLock { entries in
      if entries[session] == nil, entries.count >= capacity {
        entries = entries.filter { now < $0.value.until }
        // All in use: forgetting them costs each a call, once.
        if entries.count >= capacity { entries.removeAll(keepingCapacity: true) }
      }
      entries[session] = Entry(description: description, until: now + Limits.descriptionLifetime)
    }
    return description
  }

  var count: Int { entries.withLock { $0.count } }
}
