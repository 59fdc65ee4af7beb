/// The refresh tokens of one session: a chain in which each use of the newest token makes the next.
///
///     begin ──▶ newest 1, unused ──present newest──▶ newest n+1, unused ──▶ …
///                        │                              │
///                        └──present parent, in time──▶ the same newest again (the answer was lost)
///     present anything older, or the parent too late ──▶ reused: the family ends
///     idle or absolute limit passed ──▶ expired
///
/// Only the direct parent is honoured, only until its child is first used and at most `parentGrace`, and it brings
/// back the same child, so a lost answer locks nobody out and a thief who replays an old token ends the family
/// (RFC 9700 section 4.14.2).
package struct RefreshFamily: Sendable, Equatable {
  /// How long a family lives.
  package struct Lifetimes: Sendable, Equatable {
    /// Unused for this long, it expires.
    package var idle: Duration
    /// This long after its beginning it expires, used or not.
    package var absolute: Duration
    /// How long a parent may ask for its child again.
    package var parentGrace: Duration

    package init(idle: Duration, absolute: Duration, parentGrace: Duration) {
      self.idle = idle
      self.absolute = absolute
      self.parentGrace = parentGrace
    }
  }

  /// Number of the newest token. The first is 1.
  package private(set) var generation: Int64
  /// When the newest token was made.
  package private(set) var rotatedAt: Timestamp
  /// When the family expires unless it is used; never after `absoluteExpiry`.
  package private(set) var idleExpiry: Timestamp
  package let absoluteExpiry: Timestamp

  /// A family whose first token is made now.
  package init(beginningAt now: Timestamp, lifetimes: Lifetimes) {
    generation = 1
    rotatedAt = now
    absoluteExpiry = now + lifetimes.absolute
    idleExpiry = min(now + lifetimes.idle, absoluteExpiry)
  }

  /// A family as it was stored.
  package init(generation: Int64, rotatedAt: Timestamp, idleExpiry: Timestamp, absoluteExpiry: Timestamp) {
    self.generation = generation
    self.rotatedAt = rotatedAt
    self.idleExpiry = idleExpiry
    self.absoluteExpiry = absoluteExpiry
  }

  /// What to do about a token that was presented.
  package enum Action: Sendable, Equatable {
    /// Store the family, then answer with this generation.
    case rotate(to: Int64)
    /// Nothing changed: answer with this generation again.
    case repeatNewest(Int64)
    /// End the session and tell the owner.
    case endForReuse
    /// Past its idle or absolute limit.
    case expired
    /// No token of this family: nobody but us can make one, so storage went back in time.
    case unknown
  }

  package mutating func present(generation presented: Int64, at now: Timestamp, lifetimes: Lifetimes) -> Action {
    guard presented >= 1, presented <= generation else { return .unknown }
    guard !isExpired(at: now) else { return .expired }
    if presented == generation {
      generation += 1
      rotatedAt = now
      idleExpiry = min(now + lifetimes.idle, absoluteExpiry)
      return .rotate(to: generation)
    }
    if presented == generation - 1, now <= rotatedAt + lifetimes.parentGrace { return .repeatNewest(generation) }
    return .endForReuse
  }

  package func isExpired(at now: Timestamp) -> Bool {
    now >= idleExpiry || now >= absoluteExpiry
  }
}
