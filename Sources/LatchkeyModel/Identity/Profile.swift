/// What an app shows about the person behind a subject.
package struct Profile: Sendable, Equatable {
  package var nickname: Nickname?
  package var avatarURL: String?
  package var locale: LanguageTag?

  package init(nickname: Nickname? = nil, avatarURL: String? = nil, locale: LanguageTag? = nil) {
    self.nickname = nickname
    self.avatarURL = avatarURL
    self.locale = locale
  }
}
