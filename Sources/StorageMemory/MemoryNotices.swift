import LatchkeyModel
import Storage

struct MemoryNotices: NoticeRows {
  let tables: MemoryIdentityTables

  func lockDue(on channel: NoticeChannel, at now: Timestamp, limit: Int) -> [OwnerNotice] {
    let sent = tables.notices.rows.values.filter { NoticeChannel(to: $0.notice.recipient) == channel }
    let lines = Dictionary(grouping: sent, by: \.notice.recipient)
    let due = lines.values.compactMap { $0.min(by: isEarlier) }.filter { $0.dueAt <= now }
    return due.sorted { ($0.dueAt, $0.notice.key) < ($1.dueAt, $1.notice.key) }.prefix(limit).map(\.notice)
  }

  func insert(_ notice: OwnerNotice, dueAt: Timestamp) throws(StorageError) {
    try tables.notices.insert(
      notice.key, MemoryIdentityTables.NoticeRow(notice: notice, dueAt: dueAt), "insert a notice")
  }

  func change(_ key: String, attempts: Int64, dueAt: Timestamp) {
    tables.notices.change(key) { row in
      row.notice.attempts = attempts
      row.dueAt = dueAt
    }
  }

  func remove(_ key: String) { tables.notices[key] = nil }

  func remove(to recipient: AccountIdentifier, allBut count: Int) -> Int {
    let line = tables.notices.rows.values.filter { $0.notice.recipient == recipient }.sorted(by: isEarlier)
    let early = line.dropLast(count)
    for row in early { tables.notices[row.notice.key] = nil }
    return early.count
  }

  func remove(before time: Timestamp, limit: Int) -> Int {
    tables.notices.removeOldest(before: time, limit: limit) { _, row in row.notice.at }
  }

  private func isEarlier(_ left: MemoryIdentityTables.NoticeRow, _ right: MemoryIdentityTables.NoticeRow) -> Bool {
    (left.notice.at, left.notice.key) < (right.notice.at, right.notice.key)
  }
}
