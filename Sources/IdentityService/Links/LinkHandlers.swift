import Cryptography
import GRPC
import LatchkeyModel
import LatchkeyProtos
import Storage

/// Answers `latchkey.identity.v1.LinkService`, one file for each method.
package struct LinkHandlers: IdentityV1.LinkService {
  let core: IdentityCore

  package init(_ core: IdentityCore) {
    self.core = core
  }

  /// The account that calls, with a token that may change what leads to it.
  func account(_ context: ServerContext) throws(RPCError) -> SubjectID {
    guard try context.requireSubject().hasScope("account") else { throw .insufficientScope }
    return try context.callerSubject()
  }

  /// Holds when the password is the account's. Counted like a sign-in: a stolen token must not become a way to guess.
  func reauthenticate(_ account: SubjectID, _ password: Password) async throws(RPCError) {
    let hash = try await core.stored { () throws(StorageError) in try await core.links.passwordHash(of: account) }
    guard let hash else { throw .invalidCredentials }
    let attempt = SignInAttempt(
      identifierHash: SHA256Hash.hash(Array("reauthenticate \(account)".utf8)),
      account: account,
      guestSession: nil,
      now: core.clock.now()
    )
    let outcome = try await core.stored { () throws(StorageError) in
      try await core.attempts.begin(attempt, under: AttemptPolicy())
    }
    if case .wait(let wait) = outcome { throw .tooManyAttempts(retryAfter: wait) }
    let matches: Bool
    do throws(PasswordHasherError) {
      matches = try await core.passwords.verify(password.secret.exposed, against: hash)
    } catch {
      throw RPCError(error)
    }
    guard matches else { throw .invalidCredentials }
    try await core.stored { () throws(StorageError) in try await core.attempts.succeeded(attempt) }
  }

  static func message(_ identity: Identity) -> IdentityV1.LinkedIdentity {
    IdentityV1.LinkedIdentity(
      identityID: id(of: identity),
      kind: identity.kind.name,
      mask: identity.mask,
      linkedAt: GoogleProtobuf.Timestamp(identity.linkedAt)
    )
  }

  /// Names an identity to its owner without spelling it out.
  static func id(of identity: Identity) -> String {
    Base64URL.encode(
      Array(SHA256Hash.hash(Array("latchkey-identity-v1 \(identity.kind.rawValue) \(identity.value)".utf8))[..<16]))
  }
}
