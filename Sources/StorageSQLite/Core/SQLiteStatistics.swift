/// What a database has done since it was opened.
package struct SQLiteStatistics: Sendable, Equatable {
  /// Write operations whose outcome was decided by a commit, failed ones included.
  package var writes = 0
  /// Transactions that were committed for them.
  package var commits = 0
  /// The most operations in one commit.
  package var largestGroup = 0
  package var reads = 0
}
