import LatchkeyModel
import Storage

/// How notices to owners are kept until they are delivered.
package struct NoticePolicy: Sendable {
  /// What waits for one recipient: of more, the oldest go.
  package var mostPerRecipient = 8
  /// A notice that could not be delivered for so long tells nobody anything.
  package var keptFor: Duration = .seconds(3 * 86_400)
  /// How long a delivery may take before the next try, at first and at most: it doubles with each.
  package var firstLease: Duration = .seconds(60)
  package var longestLease: Duration = .seconds(3600)

  package init() {}

  func lease(after attempts: Int64) -> Duration { min(firstLease * (1 << min(attempts, 12)), longestLease) }
}

/// Takes notices that are due, for as long as a delivery may take: who takes them delivers each and then settles it, and
/// when that never comes about they are due again.
package struct LeaseNotices: IdentityCommand {
  package static let name = "take notices to deliver"

  package struct Outcome: Sendable, Equatable {
    package var notices: [OwnerNotice]
    /// How many were too old, and are gone.
    package var givenUp: Int
  }

  package var policy: NoticePolicy
  package var channel: NoticeChannel
  package var limit: Int
  package var now: Timestamp

  package init(under policy: NoticePolicy, on channel: NoticeChannel, limit: Int, at now: Timestamp) {
    self.policy = policy
    self.channel = channel
    self.limit = limit
    self.now = now
  }

  package func decide(
    in rows: some IdentityTransaction, noting changes: inout SessionChanges
  ) async throws(StorageError) -> Outcome {
    let givenUp = try await rows.notices.remove(before: now - policy.keptFor, limit: 100)
    var leased: [OwnerNotice] = []
    for var notice in try await rows.notices.lockDue(on: channel, at: now, limit: limit) {
      let end = now + policy.lease(after: notice.attempts)
      notice.attempts += 1
      try await rows.notices.change(notice.key, attempts: notice.attempts, dueAt: end)
      leased.append(notice)
    }
    return Outcome(notices: leased, givenUp: givenUp)
  }
}

/// A notice was delivered.
package struct SettleNotice: IdentityCommand {
  package static let name = "settle a notice"

  package var key: String

  package init(_ key: String) {
    self.key = key
  }

  package func decide(
    in rows: some IdentityTransaction, noting changes: inout SessionChanges
  ) async throws(StorageError) {
    try await rows.notices.remove(key)
  }
}

extension IdentityTransaction {
  /// Writes down that an account's owner is to be told, at every verified address: with the change, so that neither is
  /// without the other. Notes how many were dropped for it.
  func tell(
    _ notice: AccountNotice, _ id: NoticeID, to account: SubjectID, at now: Timestamp,
    noting changes: inout SessionChanges
  ) async throws(StorageError) {
    let owner = try await subjects.find(account)
    let addresses = try await identities.all(of: account).filter { $0.kind.isAddress && $0.isProven }
    for (number, address) in addresses.compactMap({ AccountIdentifier($0.value) }).enumerated() {
      let message = OwnerNotice(
        key: "\(id)-\(number)", notice, to: address, locale: owner?.profile.locale, at: now)
      try await notices.insert(message, dueAt: now)
      changes.droppedNotices += try await notices.remove(to: address, allBut: NoticePolicy().mostPerRecipient)
    }
  }
}
