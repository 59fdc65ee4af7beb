import LatchkeyModel

/// Which signing key is used when, and for how long each is published.
///
///     made, published ──lead──▶ signs ──period──▶ its successor signs ──last token expires──▶ retired
///
/// A key is known to verifiers before the first token it signs, and for as long as a token it signed may still be
/// presented: rotation logs nobody out.
package struct SigningKeySchedule: Sendable {
  package struct Entry: Sendable, Equatable {
    package let id: String
    /// When it begins to sign.
    package let notBefore: Timestamp

    package init(id: String, notBefore: Timestamp) {
      self.id = id
      self.notBefore = notBefore
    }
  }

  /// In the order in which they sign.
  package let entries: [Entry]
  /// How long a verifier may go on accepting what a key signed last: the access token's lifetime and the clock skew.
  private let tokenLifetime: Duration
  private let period: Duration
  private let lead: Duration

  package init(entries: [Entry], tokenLifetime: Duration, period: Duration, lead: Duration) {
    precondition(lead < period, "a key that signs for less time than it is announced would never be used")
    self.entries = entries.sorted { ($0.notBefore, $0.id) < ($1.notBefore, $1.id) }
    self.tokenLifetime = tokenLifetime
    self.period = period
    self.lead = lead
  }

  /// The key that signs now: the last whose time has come. A clock that went back gets the first one.
  package func signing(at now: Timestamp) -> Entry? {
    entries.last { $0.notBefore <= now } ?? entries.first
  }

  /// The keys whose tokens may be valid now or soon.
  package func published(at now: Timestamp) -> [Entry] {
    entries.filter { !isRetired($0, at: now) }
  }

  /// The keys whose last token expired.
  package func retired(at now: Timestamp) -> [Entry] {
    entries.filter { isRetired($0, at: now) }
  }

  /// When the next key has to begin to sign if it is to be made now; nil when it is not yet time.
  package func due(at now: Timestamp) -> Timestamp? {
    guard let newest = entries.last else { return now }
    guard now >= newest.notBefore + period - lead else { return nil }
    return now + lead
  }

  private func isRetired(_ entry: Entry, at now: Timestamp) -> Bool {
    guard let index = entries.firstIndex(of: entry), index + 1 < entries.count else { return false }
    return entries[index + 1].notBefore + tokenLifetime <= now
  }
}
