import LatchkeyModel

/// An account to be made.
package struct Registration: Sendable {
  package var identifier: AccountIdentifier
  /// The PHC string of the password or, with a custom identifier, of its secret; nil for an account without.
  package var secretHash: String?
  /// The code that showed the identifier to be the caller's; it is spent.
  package var code: OneTimeCode?
  package var challenge: UsedChallenge?
  package var nickname: Nickname?
  package var avatar: AvatarURL?
  package var locale: LanguageTag?
  /// Who the account is if no guest becomes it.
  package var newSubject: SubjectID
  /// The live session of the guest to promote.
  package var guestSession: SessionID?
  package var draft: SessionDraft
  /// The network that the call comes from: known for the account from now on.
  package var source: String
  package var replay: SignIn.Replay?

  package init(
    identifier: AccountIdentifier,
    secretHash: String?,
    code: OneTimeCode? = nil,
    challenge: UsedChallenge? = nil,
    nickname: Nickname?,
    avatar: AvatarURL? = nil,
    locale: LanguageTag?,
    newSubject: SubjectID,
    guestSession: SessionID?,
    draft: SessionDraft,
    source: String = "",
    replay: SignIn.Replay? = nil
  ) {
    self.identifier = identifier
    self.secretHash = secretHash
    self.code = code
    self.challenge = challenge
    self.replay = replay
    self.nickname = nickname
    self.avatar = avatar
    self.locale = locale
    self.newSubject = newSubject
    self.guestSession = guestSession
    self.draft = draft
    self.source = source
  }
}
