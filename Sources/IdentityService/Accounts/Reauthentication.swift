import Cryptography
import Domain
import GRPC
import LatchkeyModel
import Storage

/// Whether it is the owner who changes what leads to an account.
struct Reauthentication: Deciding {
  let domain: IdentityDomain
  let secrets: SecretChecks

  var surroundings: Surroundings { secrets.surroundings }

  func passwordHash(of account: SubjectID) async throws(RPCError) -> String? {
    try await look(FindPassword(of: account))
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
    try secrets.checkRoom()
    let counted = try await secrets.countAttempt(
      "reauthenticate \(account)", account: account, by: try context.requester())
    let giveBack = { @Sendable [domain] () async throws(StorageError) in
      try await domain.perform(SettleAttempt(counted, .notMade))
    }
    let matches = try await secrets.hashing(giveBack: giveBack) { place throws(PasswordHasherError) in
      try await secrets.passwords.verify(password.secret.exposed, against: hash, in: place)
    }
    guard matches else { throw .invalidCredentials }
    // What it is for may still be refused: it does not begin the count of wrong tries anew.
    await secrets.notMade(counted)
  }
}
