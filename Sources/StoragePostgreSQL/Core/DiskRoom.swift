/// Whether the server's disk has room for new rows, as far as the server has said. It may be full for some tables and not for
/// others, a row that is changed in place needs none, and a new one may find a place that another one left: that something was
/// written says little. So somebody tries, and it is believed some seconds after the server last said that there was none.
struct DiskRoom {
  /// When the server last said that there was none; nil once there was some after that.
  private var ranOut: ContinuousClock.Instant?
  private var tried: ContinuousClock.Instant?
  private var isTrying = false

  var isMissing: Bool { ranOut != nil }

  mutating func ran(out now: ContinuousClock.Instant) { ranOut = now }

  /// True once a pause while there is none, and not while the last trial goes on.
  mutating func isToBeTried(at now: ContinuousClock.Instant) -> Bool {
    guard isMissing, !isTrying, tried.map({ now - $0 >= Limits.roomPause }) ?? true else { return false }
    (tried, isTrying) = (now, true)
    return true
  }

  /// A trial that began then is over.
  mutating func wasTried(_ hasFound: Bool, since begin: ContinuousClock.Instant) {
    isTrying = false
    if hasFound, let last = ranOut, begin - last >= Limits.roomCalm { ranOut = nil }
  }

  /// Needs a few pages that nobody has used, and is undone by who runs it. PostgreSQL gives such pages back when it tidies up.
  static let trial = """
    WITH made AS (
      INSERT INTO lanes (lane, last)
      SELECT (random() * 9e18)::bigint, 0 FROM generate_series(1, \(Limits.roomRows)) RETURNING 1)
    SELECT count(*) FROM made
    """
}
