import Cryptography
import GRPC
import LatchkeyModel
import LatchkeyProtos
import Storage

extension AuthHandlers {
  /// Makes an account; with a guest's token the guest becomes it, in place: its sub and data stay, its other sessions
  /// end and the caller's is replaced.
  package func register(
    _ request: IdentityV1.RegisterRequest,
    context: ServerContext
  ) async throws(RPCError) -> IdentityV1.RegisterResponse {
    let client = try RequestFields.clientID(request.clientID)
    guard let credential = request.password else { throw .invalid("password", "is missing") }
    let identifier = try RequestFields.identifier(credential.identifier, "password.identifier")
    let password = try RequestFields.newPassword(credential.password, "password.password")
    let nickname = try RequestFields.nickname(request.nickname)
    let locale = try RequestFields.locale(request.locale)
    let guest = try guestSession(of: request.guestToken, at: core.clock.now())

    let taken = try await core.stored { () throws(StorageError) in try await core.accounts.account(for: identifier) }
    guard taken == nil else { throw .identityInUse }
    let hash: String
    do throws(PasswordHasherError) {
      hash = try await core.passwords.hash(password.secret.exposed)
    } catch {
      throw RPCError(error)
    }

    let now = core.clock.now()
    let registration = Registration(
      identifier: identifier,
      passwordHash: hash,
      nickname: nickname,
      locale: locale,
      newSubject: SubjectID(from: core.random),
      guestSession: guest,
      draft: SessionDraft(
        client: client, method: .password, address: context.peer.address, lifetimes: core.lifetimes, at: now,
        random: core.random)
    )
    let outcome = try await core.stored { () throws(StorageError) in try await core.accounts.register(registration) }
    switch outcome {
    case .registered(let signedIn):
      return IdentityV1.RegisterResponse(
        tokens: try core.tokens.tokens(of: signedIn.session, at: now),
        subject: CommonV1.Subject(signedIn.session),
        profile: CommonV1.Profile(signedIn.profile),
        accountChange: IdentityV1.AccountChange(signedIn),
        storageNamespace: signedIn.session.subject.storageNamespace
      )
    case .identifierTaken: throw .identityInUse
    case .guestGone: throw .sessionRevoked
    case .guestMerging: throw .migrationRunning
    }
  }
}
