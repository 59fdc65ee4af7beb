import LatchkeyModel

/// An account to be made.
package struct Registration: Sendable {
  package var identifier: AccountIdentifier
  package var passwordHash: String
  package var nickname: Nickname?
  package var locale: LanguageTag?
  /// Who the account is if no guest becomes it.
  package var newSubject: SubjectID
  /// The live session of the guest to promote.
  package var guestSession: SessionID?
  package var draft: SessionDraft

  package init(
    identifier: AccountIdentifier,
    passwordHash: String,
    nickname: Nickname?,
    locale: LanguageTag?,
    newSubject: SubjectID,
    guestSession: SessionID?,
    draft: SessionDraft
  ) {
    self.identifier = identifier
    self.passwordHash = passwordHash
    self.nickname = nickname
    self.locale = locale
    self.newSubject = newSubject
    self.guestSession = guestSession
    self.draft = draft
  }
}
