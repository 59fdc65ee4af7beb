import LatchkeyModel
import Storage

/// Somebody registers: makes an account, or makes one of the guest in place, and begins its session.
package struct Register: IdentityCommand {
  package static let name = "register"

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

  package var address: String { draft.address }

  package enum Outcome: Sendable, Equatable {
    case registered(SignedIn)
    case identifierTaken
    /// An account has the address, whose owner never showed to be it: a code would decide.
    case identifierUnproven
    case codeSpent
    case challengeUsed
    /// The guest's session ended or the guest is none any more.
    case guestGone
    /// The guest's data is on its way into another account.
    case guestMerging
  }

  package func decide(
    in rows: some IdentityTransaction, noting changes: inout SessionChanges
  ) async throws(StorageError) -> Outcome {
    let now = draft.now
    if let replay, let first = try await SignedIn.find(replay.key, locking: true, at: now, in: rows) {
      return .registered(first)
    }
    var guest: LiveGuest?
    var subject = Subject(id: newSubject, kind: .account, createdAt: now)
    if let guestSession {
      guest = try await LiveGuest.find(guestSession, at: now, in: rows)
      guard let guest else { return .guestGone }
      subject = guest.subject
      guard subject.promote() == .done else { return .guestGone }
      if try await rows.merges.open(of: subject.id) != nil { return .guestMerging }
    }
    // Every refusal comes before the first change: an outcome is committed, whatever it says.
    var earlier: SubjectID?
    if let (held, owner) = try await rows.lockIdentity(identifier) {
      guard !held.isProven else { return .identifierTaken }
      guard code != nil else { return .identifierUnproven }
      earlier = owner
    }
    if let challenge, try await rows.challenges.isUsed(challenge) { return .challengeUsed }
    if let code, try await !rows.codes.spend(code, at: now) { return .codeSpent }
    if let challenge { _ = try await rows.challenges.insert(challenge) }
    if let earlier { try await changes.release(identifier, from: earlier, at: now, in: rows) }
    try await makeAccount(&subject, in: rows, noting: &changes)

    let session = draft.session(
      of: subject.id, isGuest: false, deviceKeyThumbprint: guest?.session.device.keyThumbprint,
      by: draft.proven(isGuest: false))
    try await changes.begin(session, in: rows)
    changes.notes.append(
      AuditNote(
        .accountCreated, at: now, subject: subject.id, session: session.id, address: draft.address,
        detail: identifier.mask))
    try await rows.sources.note(source, of: subject.id, at: now)
    let signedIn = SignedIn(
      session: session,
      profile: subject.profile,
      previousSubject: guest?.subject.id,
      isPromoted: guest != nil,
      isWipeRequired: try await rows.devices.noteLogin(session, mask: identifier.mask)
    )
    if let replay { try await signedIn.keep(for: replay, at: now, in: rows) }
    return .registered(signedIn)
  }

  /// The account is on record, with what leads to it. The guest that it was is one no longer: its sessions end, and its
  /// device gets another guest when it asks.
  private func makeAccount(
    _ subject: inout Subject, in rows: some IdentityTransaction, noting changes: inout SessionChanges
  ) async throws(StorageError) {
    let now = draft.now
    let hasOwnSecret = identifier.kind == .customID
    // Nobody has it: it was locked when that was seen.
    guard
      try await rows.identities.insert(
        Identity(identifier, linkedAt: now, isVerified: code != nil), secretHash: hasOwnSecret ? secretHash : nil,
        of: subject.id)
    else { throw StorageError(.superseded, operation: Self.name) }
    if let nickname { subject.profile.nickname = nickname }
    if let avatar { subject.profile.avatarURL = avatar.description }
    if let locale { subject.profile.locale = locale }
    if guestSession == nil {
      try await rows.subjects.insert(subject)
    } else {
      try await rows.subjects.change(subject, usedAt: now)
      changes.ended += try await rows.sessions.end(of: subject.id, except: nil, because: .promoted, at: now)
      try await rows.devices.removeGuest(subject.id)
    }
    if !hasOwnSecret, let secretHash { try await rows.identities.putPassword(secretHash, of: subject.id, at: now) }
  }
}
