import LatchkeyModel

/// Accounts, the identities that lead to them and their passwords.
package protocol AccountStore: Sendable {
  /// The account behind an identifier, with its password's hash; nil when there is none.
  func account(for identifier: AccountIdentifier) async throws(StorageError) -> PasswordAccount?

  /// Makes an account, or promotes the guest in place, and begins its session, as one change.
  func register(_ registration: Registration) async throws(StorageError) -> RegistrationOutcome

  /// Begins a session of an account whose credential was just verified, and does what was chosen for the guest's data,
  /// as one change.
  func signIn(_ signIn: SignIn) async throws(StorageError) -> SignInOutcome

  /// What a sign-in with this replay key was answered; nil when there was none, or when its session has ended.
  func signedIn(replaying key: [UInt8], at now: Timestamp) async throws(StorageError) -> SignedIn?

  /// Keeps a ticket by which the guest's device may choose later, and spends what it stands for, as one change. An
  /// earlier one of the same session is void.
  ///
  /// - Parameters:
  ///   - proof: why the caller may have the account's session; a code in it is spent.
  ///   - challenge: what the credential answered; it is used up.
  func keep(
    _ ticket: LinkTicket, for proof: SignIn.Proof, challenge: UsedChallenge?, at now: Timestamp
  ) async throws(StorageError) -> TicketOutcome

  /// The ticket with this hash; nil when there is none, when it is not this guest session's, or when it has expired.
  func ticket(
    _ hash: [UInt8], of guestSession: SessionID, at now: Timestamp
  ) async throws(StorageError) -> LinkTicket?

  /// Puts a stronger hash of the same secret in the place of `old`; does nothing if that is no longer the hash.
  ///
  /// - Parameter identifier: what leads to the account: a custom one has a secret of its own.
  func replaceSecretHash(
    of identifier: AccountIdentifier, from old: String, to new: String, at now: Timestamp
  ) async throws(StorageError)

  func subject(_ id: SubjectID) async throws(StorageError) -> Subject?
}
