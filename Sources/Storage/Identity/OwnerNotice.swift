import LatchkeyModel

/// A change that an account's owner is told of. Stored and sent: never renamed.
package enum AccountNotice: String, Sendable, CaseIterable {
  case passwordSet = "password_set"
  case passwordChanged = "password_changed"
  case passwordRemoved = "password_removed"
  case recovered
  case accountDeleted = "account_deleted"
  case identityLinked = "identity_linked"
  case identityUnlinked = "identity_unlinked"
  case unlockEnrolled = "unlock_enrolled"
}

/// How an address is reached. What holds up one of them does not hold up the other.
package enum NoticeChannel: Sendable, CaseIterable {
  case mail
  case phone

  package init(to recipient: AccountIdentifier) {
    self = recipient.kind == .phone ? .phone : .mail
  }
}

/// What an owner is yet to be told, at one verified address.
package struct OwnerNotice: Sendable, Equatable {
  /// The same for every try to deliver it, and no other notice's: who gets one twice recognises it by this.
  package var key: String
  package var notice: AccountNotice
  package var recipient: AccountIdentifier
  package var locale: LanguageTag?
  /// When the change was made.
  package var at: Timestamp
  /// Deliveries that were begun.
  package var attempts: Int64

  package init(
    key: String, _ notice: AccountNotice, to recipient: AccountIdentifier, locale: LanguageTag?, at time: Timestamp,
    attempts: Int64 = 0
  ) {
    self.key = key
    self.notice = notice
    self.recipient = recipient
    self.locale = locale
    at = time
    self.attempts = attempts
  }
}
