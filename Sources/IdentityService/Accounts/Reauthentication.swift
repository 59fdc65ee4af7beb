import Cryptography
import GRPC
import LatchkeyModel
import Storage

/// Whether it is the owner who changes what leads to an account.
struct Reauthentication: Surrounded {
  let links: any LinkStore
  let secrets: SecretChecks

  var surroundings: Surroundings { secrets.surroundings }

  func passwordHash(of account: SubjectID) async throws(RPCError) -> String? {
    try await stored { () throws(StorageError) in try await links.passwordHash(of: account) }
  }

  /// Holds when the password is the account's.
  func reauthenticate(_ context: ServerContext, _ password: String) async throws(RPCError) {
    try await reauthenticate(
      try context.callerSubject(), try RequestFields.presentedPassword(password, "password"), context)
  }

  /// The method's line in the table has asked for the owner's recent proof, whichever it was, so that no password is
  /// needed here. One that is sent all the same has to be right: nobody may believe that a wrong one was taken.
  func check(_ context: ServerContext, _ password: String) async throws(RPCError) {
    if !password.isEmpty { try await reauthenticate(context, password) }
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
