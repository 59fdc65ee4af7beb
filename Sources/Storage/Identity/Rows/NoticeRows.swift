import LatchkeyModel

/// What owners are yet to be told, by its keys. The notices of one recipient are in the order of their times, and of their
/// keys where those are the same.
package protocol NoticeRows {
  /// At most `limit` of those that are due on a channel, the one due first at the front, and of each recipient none but the
  /// first. Operations at the same time get different ones: what another has locked is left out.
  func lockDue(on channel: NoticeChannel, at now: Timestamp, limit: Int) async throws(StorageError) -> [OwnerNotice]

  func insert(_ notice: OwnerNotice, dueAt: Timestamp) async throws(StorageError)

  func change(_ key: String, attempts: Int64, dueAt: Timestamp) async throws(StorageError)

  func remove(_ key: String) async throws(StorageError)

  /// Those of a recipient but the last `count`. Returns how many.
  func remove(to recipient: AccountIdentifier, allBut count: Int) async throws(StorageError) -> Int

  /// At most `limit` of those from before a time, the oldest first. Returns how many.
  func remove(before time: Timestamp, limit: Int) async throws(StorageError) -> Int
}
