import Cryptography
import GRPC
import LatchkeyModel
import Storage

/// Whether it is the owner who changes what leads to an account.
struct Reauthentication: Surrounded {
  let links: any LinkStore
  let sessions: any SessionStore
  let secrets: SecretChecks

  var surroundings: Surroundings { secrets.surroundings }

  func passwordHash(of account: SubjectID) async throws(RPCError) -> String? {
    try await stored { () throws(StorageError) in try await links.passwordHash(of: account) }
  }

  /// Holds when the password is the account's, or when the account has none and its owner signed in a moment ago.
  func reauthenticate(_ context: ServerContext, _ password: String) async throws(RPCError) {
    let account = try context.callerSubject()
    let hash = try await passwordHash(of: account)
    guard hash == nil, password.isEmpty else {
      return try await reauthenticate(account, try RequestFields.presentedPassword(password, "password"), context)
    }
    guard try await isFresh(context) else { throw .reauthenticationRequired }
  }

  /// Holds when the caller signed in a moment ago, or says the password.
  func requireFresh(_ context: ServerContext, _ password: String) async throws(RPCError) {
    if password.isEmpty, try await isFresh(context) { return }
    try await reauthenticate(context, password)
  }

  /// Whether the caller's session began a moment ago, with something of the caller's: not with a code that somebody
  /// else confirmed.
  private func isFresh(_ context: ServerContext) async throws(RPCError) -> Bool {
    let id = try context.callerSession()
    let session = try await stored { () throws(StorageError) in try await sessions.session(id) }
    guard let session, session.method != .qr else { return false }
    return clock.now() <= session.authenticatedAt + Limits.freshSignIn
  }

  /// Holds when the password is the account's. Counted like a sign-in: a stolen token must not become a way to guess.
  private func reauthenticate(
    _ account: SubjectID, _ password: Password, _ context: ServerContext
  ) async throws(RPCError) {
    let hash = try await passwordHash(of: account)
    guard let hash else { throw .invalidCredentials }
    try secrets.checkHashingRoom()
    let counted = try await secrets.countAttempt(
      "reauthenticate \(account)", account: account, by: try context.requester())
    let attempts = secrets.attempts
    let giveBack = { @Sendable () async throws(StorageError) in try await attempts.notMade(counted) }
    let matches = try await secrets.hashing(giveBack: giveBack) { () throws(PasswordHasherError) in
      try await secrets.passwords.verify(password.secret.exposed, against: hash)
    }
    guard matches else { throw .invalidCredentials }
    try await secrets.attemptSucceeded(counted)
  }
}
