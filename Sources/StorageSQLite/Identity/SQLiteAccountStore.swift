import LatchkeyModel
import Storage

/// Accounts in SQLite.
package struct SQLiteAccountStore: AccountStore {
  private let database: IdentityDatabase

  package init(_ database: IdentityDatabase) {
    self.database = database
  }

  package func account(for identifier: AccountIdentifier) async throws(StorageError) -> PasswordAccount? {
    try await database.read { db throws(StorageError) in try Self.account(for: identifier, in: db) }
  }

  package func subject(_ id: SubjectID) async throws(StorageError) -> Subject? {
    try await database.read { db throws(StorageError) in try SubjectRow.find(id, in: db) }
  }

  package func register(_ registration: Registration) async throws(StorageError) -> RegistrationOutcome {
    try await database.write { db, changes throws(StorageError) in
      let now = registration.draft.now
      changes.address = registration.draft.address
      if let replay = registration.replay, let first = try SignInReplayRow.find(replay.key, at: now, in: db) {
        return .registered(first)
      }
      var subject = Subject(id: registration.newSubject, kind: .account, createdAt: now)
      var device: String?
      if let guestSession = registration.guestSession {
        switch try Guest.find(guestSession, at: now, in: db) {
        case .found(let guest):
          subject = guest.subject
          device = guest.session.device.keyThumbprint
        case .gone: return .guestGone
        }
        guard subject.promote() == .done else { return .guestGone }
        if try MergeRow.openMerge(of: subject.id, in: db) != nil { return .guestMerging }
      }
      // Every refusal comes before the first change: an outcome is committed, whatever it says.
      let identifier = registration.identifier
      var earlier: SubjectID?
      if let (held, owner) = try IdentityRow.find(identifier, in: db) {
        guard !held.isProven else { return .identifierTaken }
        guard registration.code != nil else { return .identifierUnproven }
        earlier = owner
      }
      if let challenge = registration.challenge, try ChallengeRow.isUsed(challenge, in: db) { return .challengeUsed }
      if let code = registration.code, try !SQLiteOneTimeCodeStore.spend(code, at: now, in: db) { return .codeSpent }
      if let challenge = registration.challenge { try ChallengeRow.spend(challenge, in: db) }
      if let earlier { try IdentityRow.release(identifier, from: earlier, at: now, in: db, noting: &changes) }
      let hasOwnSecret = identifier.kind == .customID
      guard
        try IdentityRow.insert(
          identifier, secretHash: hasOwnSecret ? registration.secretHash : nil, isVerified: registration.code != nil,
          of: subject.id, at: now, in: db)
      else { return .identifierTaken }
      if let nickname = registration.nickname { subject.profile.nickname = nickname }
      if let avatar = registration.avatar { subject.profile.avatarURL = avatar.description }
      if let locale = registration.locale { subject.profile.locale = locale }
      if registration.guestSession == nil {
        try SubjectRow.insert(subject, into: db)
      } else {
        try SubjectRow.update(subject, at: now, in: db)
        try SessionRow.endAll(of: subject.id, because: .promoted, at: now, in: db, noting: &changes)
        try DeviceRow.releaseGuest(subject.id, in: db)
      }
      if !hasOwnSecret, let hash = registration.secretHash {
        try db.execute(
          "INSERT INTO passwords (sub, hash, changed_at) VALUES (?, ?, ?)", .id(subject.id), .text(hash), .time(now))
      }
      let session = registration.draft.session(
        of: subject.id, isGuest: false, deviceKeyThumbprint: device, by: registration.draft.proven(isGuest: false))
      try SessionRow.insert(session, into: db, noting: &changes)
      changes.notes.append(
        AuditNote(
          .accountCreated, at: now, subject: subject.id, session: session.id, address: registration.draft.address,
          detail: registration.identifier.mask))
      try SourceRow.note(registration.source, of: subject.id, at: now, in: db)
      let isWipeRequired = try Self.noteLogin(
        session, mask: registration.identifier.mask, in: db)
      let signedIn = SignedIn(
        session: session,
        profile: subject.profile,
        previousSubject: registration.guestSession == nil ? nil : subject.id,
        isPromoted: registration.guestSession != nil,
        isWipeRequired: isWipeRequired
      )
      if let replay = registration.replay {
        try SignInReplayRow.keep(signedIn, under: replay.key, until: replay.expiry, at: now, in: db)
      }
      return .registered(signedIn)
    }
  }

  package func signIn(_ signIn: SignIn) async throws(StorageError) -> SignInOutcome {
    try await database.write { db, changes throws(StorageError) in
      let now = signIn.draft.now
      changes.address = signIn.draft.address
      // First of all: the first of two equal requests may have spent the guest and the code.
      if let replay = signIn.replay, let first = try SignInReplayRow.find(replay.key, at: now, in: db) {
        return .signedIn(first)
      }
      var guest: Guest?
      if let choice = signIn.guest {
        switch try Guest.find(choice.session, at: now, in: db) {
        case .found(let found): guest = found
        case .gone: return .guestGone
        }
      }
      // Every refusal comes before the first change: an outcome is committed, whatever it says.
      let presented: PresentedProof
      switch try PresentedProof.find(signIn.proof, guest: guest?.session.id, at: now, in: db) {
      case .found(let found): presented = found
      case .changed: return .credentialChanged
      case .noTicket: return .ticketInvalid
      }
      let account = presented.account
      if let challenge = signIn.challenge, try ChallengeRow.isUsed(challenge, in: db) { return .challengeUsed }
      guard let subject = try SubjectRow.find(account, in: db), subject.isAccount else { return .credentialChanged }
      if subject.isDisabled { return .disabled }
      if let guest, let open = try MergeRow.openMerge(of: guest.subject.id, in: db), open.target != account {
        return .guestMerging
      }
      if case .code(_, _, let code) = signIn.proof, try !SQLiteOneTimeCodeStore.spend(code, at: now, in: db) {
        return .credentialChanged
      }
      if case .ticket(let hash) = signIn.proof { try TicketRow.void(hash, in: db) }
      if let challenge = signIn.challenge { try ChallengeRow.spend(challenge, in: db) }

      let device = guest?.session.device.keyThumbprint ?? presented.device
      var isFirstLogin = true
      if let device {
        isFirstLogin = try !SessionRow.hasSession(of: account, onDevice: device, in: db)
        try SessionRow.endAll(of: account, onDevice: device, because: .replaced, at: now, in: db, noting: &changes)
      }
      let session = signIn.draft.session(
        of: account, isGuest: false, deviceKeyThumbprint: device,
        by: presented.source.map { signIn.draft.continuing($0) } ?? signIn.draft.proven(isGuest: false),
        replacing: presented.earlier)
      try SessionRow.insert(session, into: db, noting: &changes)
      if let credential = presented.credential {
        try LineageRow.inherit(.session(session.id), from: credential, in: db)
      }
      if let earlier = presented.earlier {
        try SessionRow.end(earlier.id, because: .replaced, at: now, in: db, noting: &changes)
        try LineageRow.replace(earlier.id, with: session.id, in: db)
        // What revokes the code's session must find the one that took its place (R36).
        try db.execute("UPDATE qr_grants SET sid = ? WHERE sid = ?", .id(session.id), .id(earlier.id))
      }

      var merge: PendingMerge?
      if let guest, let choice = signIn.guest?.choice {
        switch choice {
        case .merge(let id, let dueAt):
          let wanted = PendingMerge(
            id: id,
            guest: guest.subject.id,
            guestSession: guest.session.id,
            target: account,
            targetSession: session.id,
            isFirstLoginOnDevice: isFirstLogin
          )
          merge = try MergeRow.want(wanted, at: now, dueAt: dueAt, in: db)
        case .leave:
          try SessionRow.end(guest.session.id, because: .switchedAway, at: now, in: db, noting: &changes)
        }
      }
      try SubjectRow.touch(account, at: now, in: db)
      // Where a code was shown is not where its owner is.
      if presented.source == nil { try SourceRow.note(signIn.source, of: account, at: now, in: db) }
      let isWipeRequired = try Self.noteLogin(session, mask: presented.mask, in: db)
      let signedIn = SignedIn(
        session: session,
        profile: subject.profile,
        previousSubject: guest?.subject.id,
        isWipeRequired: isWipeRequired,
        merge: merge
      )
      if let replay = signIn.replay {
        try SignInReplayRow.keep(signedIn, under: replay.key, until: replay.expiry, at: now, in: db)
      }
      return .signedIn(signedIn)
    }
  }

  package func signedIn(replaying key: [UInt8], at now: Timestamp) async throws(StorageError) -> SignedIn? {
    try await database.read { db throws(StorageError) in try SignInReplayRow.find(key, at: now, in: db) }
  }

  package func keep(
    _ ticket: LinkTicket, for proof: SignIn.Proof, challenge: UsedChallenge?, at now: Timestamp
  ) async throws(StorageError) -> TicketOutcome {
    try await database.write { db, changes throws(StorageError) in
      guard case .found = try Guest.find(ticket.guestSession, at: now, in: db) else { return .guestGone }
      if let challenge, try ChallengeRow.isUsed(challenge, in: db) { return .challengeUsed }
      // Every refusal comes before the first change: an outcome is committed, whatever it says.
      if case .code(let account, let identifier, let code) = proof {
        guard let current = try Self.account(for: identifier, in: db), current.subject == account, current.isProven,
          try SQLiteOneTimeCodeStore.spend(code, at: now, in: db)
        else { return .credentialChanged }
      }
      guard case .found(let presented) = try PresentedProof.find(proof, guest: nil, at: now, in: db) else {
        return .credentialChanged
      }
      if let challenge { try ChallengeRow.spend(challenge, in: db) }
      var ticket = ticket
      if let source = presented.source { ticket.authority = source }
      ticket.credential = presented.credential
      try TicketRow.keep(ticket, in: db)
      return .kept
    }
  }

  package func ticket(
    _ hash: [UInt8], of guestSession: SessionID, at now: Timestamp
  ) async throws(StorageError) -> LinkTicket? {
    try await database.read { db throws(StorageError) in try TicketRow.find(hash, of: guestSession, at: now, in: db) }
  }

  package func replaceSecretHash(
    of identifier: AccountIdentifier, from old: String, to new: String, at now: Timestamp
  ) async throws(StorageError) {
    try await database.write { db, changes throws(StorageError) in
      guard let account = try Self.account(for: identifier, in: db), account.passwordHash == old else { return }
      if identifier.kind == .customID {
        try IdentityRow.replaceSecret(of: identifier, with: new, in: db)
      } else {
        _ = try db.execute(
          "UPDATE passwords SET hash = ?, changed_at = ? WHERE sub = ?", .text(new), .time(now), .id(account.subject))
      }
    }
  }

  // MARK: Steps of a transaction

  static func account(
    for identifier: AccountIdentifier, in db: SQLiteConnection
  ) throws(StorageError) -> PasswordAccount? {
    try db.first(
      """
      SELECT identities.sub, coalesce(identities.secret_hash, passwords.hash), identities.verified_at
      FROM identities LEFT JOIN passwords ON passwords.sub = identities.sub
      WHERE identities.kind = ? AND identities.value = ?
      """,
      .integer(identifier.kind.rawValue), .text(identifier.canonical)
    ) { row throws(StorageError) in
      PasswordAccount(
        subject: try row.id(0), passwordHash: row.optionalText(1),
        isProven: !identifier.isAddress || row.optionalInteger(2) != nil)
    }
  }

  /// Writes the device's last-login hint. True when another account used the device before.
  private static func noteLogin(
    _ session: Session, mask: String, in db: SQLiteConnection
  ) throws(StorageError) -> Bool {
    guard let key = session.device.keyThumbprint, let device = try DeviceRow.find(key, in: db) else { return false }
    let hint = LastLoginHint(method: session.method, accountMask: mask, at: session.family.rotatedAt)
    try DeviceRow.noteLogin(hint, account: session.subject, of: key, in: db)
    return device.lastAccount != nil && device.lastAccount != session.subject
  }

  /// A guest whose session is live.
  private struct Guest {
    var session: Session
    var subject: Subject

    enum Finding {
      case found(Guest)
      case gone
    }

    static func find(_ id: SessionID, at now: Timestamp, in db: SQLiteConnection) throws(StorageError) -> Finding {
      guard let session = try SessionRow.live(id, at: now, in: db), session.isGuest,
        let subject = try SubjectRow.find(session.subject, in: db), subject.isGuest
      else { return .gone }
      return .found(Guest(session: session, subject: subject))
    }
  }
}
