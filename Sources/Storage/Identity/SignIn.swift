import LatchkeyModel

/// A sign-in whose credential held.
package struct SignIn: Sendable {
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
    /// The session that a QR code began; the new one takes its place.
    case qrGrant(session: SessionID)
    /// SHA-256 of a link ticket. It is spent.
    case ticket(hash: [UInt8])
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
}
