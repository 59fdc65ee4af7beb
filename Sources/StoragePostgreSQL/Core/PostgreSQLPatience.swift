/// How long what waits for a database may wait.
struct PostgreSQLPatience: Sendable {
  /// While what came first has waited for this long for a connection nothing more is queued; nil for no such bound.
  var queue: Duration?
  /// For the answer to a statement.
  var statement: Duration
  /// For a lock that another transaction holds, in milliseconds.
  var lockMilliseconds: Int
  /// For those of a group that come first, before the rest is left for the next one.
  var group: Duration = Limits.groupDuration
  /// For the next statement of a group, in milliseconds, before the server ends its session.
  var groupSilenceMilliseconds = Limits.groupSilenceMilliseconds

  /// Of a service: its callers had better be told to come back.
  static let ofServices = PostgreSQLPatience(
    queue: Limits.longestWait, statement: Limits.statement, lockMilliseconds: Limits.lockMilliseconds)

  /// Of who copies all there is: the first row of a large table comes when all are in order.
  static let ofCopies = PostgreSQLPatience(queue: nil, statement: Limits.copyStatement, lockMilliseconds: 60_000)

  /// Of those who bring a bounded amount of work all at once and want it done, such as tests.
  static let untilDone = PostgreSQLPatience(
    queue: nil, statement: .seconds(120), lockMilliseconds: 60_000, groupSilenceMilliseconds: 60_000)
}
