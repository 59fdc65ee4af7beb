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

  /// Holds when the password is the account's, or when the account has none and its owner signed in a moment ago.
  func reauthenticate(_ context: ServerContext, _ password: String) async throws(RPCError) {
    let account = try context.callerSubject()
    let hash = try await core.stored { () throws(StorageError) in try await core.links.passwordHash(of: account) }
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
    let session = try await core.stored { () throws(StorageError) in try await core.sessions.session(id) }
    guard let session, session.method != .qr else { return false }
    return core.clock.now() <= session.authenticatedAt + Limits.freshSignIn
  }

  /// Holds when the password is the account's. Counted like a sign-in: a stolen token must not become a way to guess.
  private func reauthenticate(
    _ account: SubjectID, _ password: Password, _ context: ServerContext
  ) async throws(RPCError) {
    let hash = try await core.stored { () throws(StorageError) in try await core.links.passwordHash(of: account) }
    guard let hash else { throw .invalidCredentials }
    try core.evidence.secrets.checkHashingRoom()
    let counted = try await core.evidence.secrets.countAttempt(
      "reauthenticate \(account)", account: account, by: try context.requester())
    let attempts = core.evidence.secrets.attempts
    let giveBack = { @Sendable () async throws(StorageError) in try await attempts.notMade(counted) }
    let matches = try await core.evidence.secrets.hashing(giveBack: giveBack) { () throws(PasswordHasherError) in
      try await core.evidence.secrets.passwords.verify(password.secret.exposed, against: hash)
    }
    guard matches else { throw .invalidCredentials }
    try await core.evidence.secrets.attemptSucceeded(counted)
  }

  static func message(_ identity: Identity) -> IdentityV1.LinkedIdentity {
    IdentityV1.LinkedIdentity(
      identityID: id(of: identity),
      kind: identity.kind.name,
      mask: identity.mask,
      linkedAt: GoogleProtobuf.Timestamp(identity.linkedAt),
      verified: identity.isProven
    )
  }

  static func message(_ unlock: Unlock) -> IdentityV1.LinkedIdentity {
    IdentityV1.LinkedIdentity(
      identityID: id(of: unlock),
      kind: unlock.kind.name,
      mask: "\(unlock.deviceKey.prefix(6))…",
      linkedAt: GoogleProtobuf.Timestamp(unlock.enrolledAt),
      verified: true
    )
  }

  static func id(of unlock: Unlock) -> String {
    id("latchkey-unlock-v1 \(unlock.kind.rawValue) \(unlock.keyThumbprint)")
  }

  /// Names an identity to its owner without spelling it out.
  static func id(of identity: Identity) -> String {
    id("latchkey-identity-v1 \(identity.kind.rawValue) \(identity.value)")
  }

  private static func id(_ text: String) -> String {
    Base64URL.encode(Array(SHA256Hash.hash(Array(text.utf8))[..<16]))
  }
}
