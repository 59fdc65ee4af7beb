/// Where a server stands in the history of its database. A standby that takes over begins the next timeline; the server whose
/// place it took goes on calling itself the leader for as long as nobody tells it otherwise, such as after it stood still.
/// Source: https://www.postgresql.org/docs/15/continuous-archiving.html#BACKUP-TIMELINES
struct ServerHistory: Sendable, Equatable {
  /// What all servers of one database have in common, and others do not.
  let system: Int64
  let timeline: Int64

  /// Another one took this one's place.
  func isOlder(than other: ServerHistory) -> Bool { system == other.system && timeline < other.timeline }

  /// One row. A standby has a timeline as well, but none of its own making.
  static let question = """
    SELECT system_identifier, CASE WHEN pg_is_in_recovery() THEN 0
      ELSE ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::bigint END
    FROM pg_control_system()
    """
}

/// Which of a URL's servers a pool is connected to: the one that leads, and no longer one that did. Knows no server and no
/// clock.
///
/// The first that says it takes writes need not be it. So after a connection was lost all are asked, and the latest in history
/// is taken; then that one alone for as long as none is lost.
struct ServerChoice {
  /// Of the last one that was taken.
  private(set) var latest: ServerHistory?
  private var taken: (host: Int, at: ContinuousClock.Instant)?
  private var lost: ContinuousClock.Instant?

  /// The host that was taken, by its place in the URL; nil when all are to be asked.
  var host: Int? {
    guard let taken, lost.map({ $0 < taken.at }) ?? true else { return nil }
    return taken.host
  }

  /// Whether a server may be asked and told anything. One that does not say where it stands may.
  func isCurrent(_ history: ServerHistory?) -> Bool {
    guard let history, let latest else { return true }
    return !history.isOlder(than: latest)
  }

  /// False for one whose place another has taken.
  ///
  /// - Parameters:
  ///   - isSure: all were asked.
  ///   - begin: when it was begun to look for it.
  mutating func take(
    _ history: ServerHistory?, host: Int, isSure: Bool = true, since begin: ContinuousClock.Instant
  ) -> Bool {
    guard isCurrent(history) else { return false }
    if let history { latest = history }
    taken = isSure ? (host, begin) : nil
    return true
  }

  mutating func wasLost(at now: ContinuousClock.Instant) { lost = now }
}
