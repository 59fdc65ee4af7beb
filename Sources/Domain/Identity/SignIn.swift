import LatchkeyModel
import Storage

/// A sign-in whose credential held: begins a session of the account, and does what was chosen for the guest's data.
package struct SignIn: IdentityCommand {
  package static let name = "sign in"

  /// Why the caller may have the account's session.
  package enum Proof: Sendable, Equatable {
    /// The password matched this hash, which must still be the account's.
    case password(account: SubjectID, identifier: AccountIdentifier, hash: String)
    /// The code matched, and is spent.
    case code(account: SubjectID, identifier: AccountIdentifier, code: OneTimeCode)
    /// Somebody whom we trust says that the identifier is the caller's.
    case identity(account: SubjectID, identifier: AccountIdentifier)
    /// The key proved itself, and still unlocks the account.
    case unlock(account: SubjectID, kind: Unlock.Kind, keyThumbprint: String, mask: String)
    /// The session that a QR code began; the new one takes its place, unless somebody stepped up in it since the token
    /// was made that says `provenAt`.
    case qrGrant(session: SessionID, provenAt: Timestamp?)
    /// SHA-256 of a link ticket. It is spent.
    case ticket(hash: [UInt8])

    /// What somebody proved themselves by just now; nil where they did before.
    var method: SignInMethod? {
      switch self {
      case .password(_, let identifier, _): identifier.kind == .customID ? .customSecret : .password
      case .code: .otp
      case .identity: .oidc
      case .unlock(_, let kind, _, _): kind == .pattern ? .pattern : .deviceKey
      case .qrGrant, .ticket: nil
      }
    }
  }

  /// What happens to the guest's data.
  package enum GuestChoice: Sendable, Equatable {
    /// It moves into the account, under this id. Until `dueAt` only the sign-in itself offers it to the migrator.
    case merge(MergeID, dueAt: Timestamp)
    /// It stays with the guest.
    case leave
  }

  package struct Guest: Sendable, Equatable {
    package var session: SessionID
    package var choice: GuestChoice

    package init(session: SessionID, choice: GuestChoice) {
      self.session = session
      self.choice = choice
    }
  }

  package var proof: Proof
  package var guest: Guest?
  package var draft: SessionDraft
  /// What the credential answered.
  package var challenge: UsedChallenge?
  /// The network that the call comes from: known for the account from now on.
  package var source: String
  /// What the same request would have again, and until when it is answered the same.
  package var replay: Replay?

  package struct Replay: Sendable, Equatable {
    package var key: [UInt8]
    package var expiry: Timestamp

    package init(key: [UInt8], expiry: Timestamp) {
      self.key = key
      self.expiry = expiry
    }
  }

  package init(
    proof: Proof, guest: Guest?, draft: SessionDraft, challenge: UsedChallenge? = nil, source: String = "",
    replay: Replay? = nil
  ) {
    self.source = source
    self.challenge = challenge
    self.replay = replay
    self.proof = proof
    self.guest = guest
    self.draft = draft
  }

  package var address: String { draft.address }

  package enum Outcome: Sendable, Equatable {
    case signedIn(SignedIn)
    /// The same request was answered before.
    case repeated(SignedIn)
    /// The password changed, or the account went away, since it was looked up.
    case credentialChanged
    /// The challenge was answered before.
    case challengeUsed
    /// Unknown, spent, expired, or another guest's.
    case ticketInvalid
    case guestGone
    /// Somebody who runs the service keeps the account out.
    case disabled
    /// The guest's data is on its way into another account.
    case guestMerging
  }

  package func decide(
    in rows: some IdentityTransaction, noting changes: inout SessionChanges
  ) async throws(StorageError) -> Outcome {
    let now = draft.now
    // First of all: the first of two equal requests may have spent the guest and the code.
    if let replay, let first = try await SignedIn.find(replay.key, locking: true, at: now, in: rows) {
      return .repeated(first)
    }
    var guest: LiveGuest?
    if let choice = self.guest {
      guest = try await LiveGuest.find(choice.session, at: now, in: rows)
      if guest == nil { return .guestGone }
    }
    // Every refusal comes before the first change: an outcome is committed, whatever it says.
    let presented: PresentedProof
    switch try await PresentedProof.find(proof, guest: guest?.session.id, at: now, in: rows) {
    case .found(let found): presented = found
    case .changed: return .credentialChanged
    case .noTicket: return .ticketInvalid
    }
    if let challenge, try await rows.challenges.isUsed(challenge) { return .challengeUsed }
    guard let account = presented.owner, account.isAccount else { return .credentialChanged }
    if account.isDisabled { return .disabled }
    if let guest, let open = try await rows.merges.open(of: guest.subject.id), open.target != account.id {
      return .guestMerging
    }
    if case .code(_, _, let code) = proof, try await !rows.codes.spend(code, at: now) { return .credentialChanged }
    if case .ticket(let hash) = proof { try await rows.tickets.remove(hash) }
    if let challenge { _ = try await rows.challenges.insert(challenge) }

    let (session, isFirstLogin) = try await begin(presented, guest, in: rows, noting: &changes)
    let merge = try await settle(guest, session, isFirstLogin: isFirstLogin, in: rows, noting: &changes)
    try await rows.subjects.change(account.id, usedAt: now)
    // Where a code was shown is not where its owner is.
    if presented.source == nil { try await rows.sources.note(source, of: account.id, at: now) }
    let signedIn = SignedIn(
      session: session,
      profile: account.profile,
      previousSubject: guest?.subject.id,
      isWipeRequired: try await rows.devices.noteLogin(session, mask: presented.mask),
      merge: merge
    )
    if let replay { try await signedIn.keep(for: replay, at: now, in: rows) }
    return .signedIn(signedIn)
  }

  /// Begins the account's session in the place of those that it takes over.
  private func begin(
    _ presented: PresentedProof, _ guest: LiveGuest?, in rows: some IdentityTransaction,
    noting changes: inout SessionChanges
  ) async throws(StorageError) -> (session: Session, isFirstLogin: Bool) {
    let (account, now) = (presented.account, draft.now)
    let device = guest?.session.device.keyThumbprint ?? presented.device
    var isFirstLogin = true
    if let device {
      isFirstLogin = try await !rows.sessions.wasUsed(account, onDevice: device)
      changes.ended += try await rows.sessions.end(of: account, onDevice: device, because: .replaced, at: now)
    }
    let session = draft.session(
      of: account, isGuest: false, deviceKeyThumbprint: device,
      by: presented.source.map { draft.continuing($0) } ?? draft.proven(isGuest: false),
      replacing: presented.earlier)
    try await changes.begin(session, in: rows)
    if let credential = presented.credential {
      try await rows.lineage.insert(.session(session.id), cameOfAncestorsOf: credential)
    }
    if let earlier = presented.earlier {
      try await changes.end(earlier.id, because: .replaced, at: now, in: rows)
      try await rows.lineage.replace(earlier.id, with: session.id)
      // What revokes the code's session must find the one that took its place (R36).
      try await rows.grants.change(earlier.id, to: session.id)
    }
    return (session, isFirstLogin)
  }

  /// Does what was chosen for the guest's data.
  private func settle(
    _ guest: LiveGuest?, _ session: Session, isFirstLogin: Bool, in rows: some IdentityTransaction,
    noting changes: inout SessionChanges
  ) async throws(StorageError) -> PendingMerge? {
    guard let guest, let choice = self.guest?.choice else { return nil }
    switch choice {
    case .leave:
      try await changes.end(guest.session.id, because: .switchedAway, at: draft.now, in: rows)
      return nil
    case .merge(let id, let dueAt):
      // A wish that is open already is the same wish; the newest sign-in's session is the one that lives.
      if var open = try await rows.merges.open(of: guest.subject.id) {
        open.targetSession = session.id
        open.guestSession = guest.session.id
        try await rows.merges.changeSessions(of: open, at: draft.now)
        return open
      }
      let wanted = PendingMerge(
        id: id, guest: guest.subject.id, guestSession: guest.session.id, target: session.subject,
        targetSession: session.id, isFirstLoginOnDevice: isFirstLogin, createdAt: draft.now)
      try await rows.merges.insert(wanted, dueAt: dueAt, at: draft.now)
      return wanted
    }
  }
}
