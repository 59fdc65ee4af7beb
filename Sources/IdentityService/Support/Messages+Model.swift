import LatchkeyModel
import LatchkeyProtos

extension CommonV1.Subject {
  init(_ session: Session) {
    self.init(sub: session.subject.description, isGuest: session.isGuest)
  }
}

extension CommonV1.Profile {
  init(_ profile: Profile) {
    self.init(
      name: profile.nickname?.description ?? "",
      avatarURL: profile.avatarURL ?? "",
      locale: profile.locale?.description ?? ""
    )
  }
}

extension IdentityV1.LastLoginHint {
  init(_ hint: LastLoginHint) {
    self.init(method: hint.method.rawValue, accountMask: hint.accountMask, at: GoogleProtobuf.Timestamp(hint.at))
  }
}
