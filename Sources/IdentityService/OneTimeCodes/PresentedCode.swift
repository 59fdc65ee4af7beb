import GRPC
import LatchkeyModel
import LatchkeyProtos
import Storage

/// A code that was presented and is the one that was sent: it shows that an address is the caller's. It is spent by what
/// it is presented for.
struct PresentedCode: Sendable {
  let identifier: AccountIdentifier
  let code: OneTimeCode
  /// The account that the address leads to, if any.
  let account: SubjectID?

  /// - Parameter field: where the credential stands in the request.
  init(
    _ credential: IdentityV1.OtpCredential,
    _ field: String,
    _ core: IdentityCore,
    guest: SessionID?
  ) async throws(RPCError) {
    let identifier = try RequestFields.address(credential.identifier, "\(field).identifier")
    let digits = core.codePolicy.digits
    guard credential.code.utf8.count == digits, credential.code.utf8.allSatisfy({ (0x30...0x39).contains($0) }) else {
      throw .invalid("\(field).code", "must be \(digits) digits")
    }
    let found = try await core.stored { () throws(StorageError) in try await core.accounts.account(for: identifier) }
    // Beside the tries of each code: new codes must not make endless tries (R24).
    let counted = try await core.countAttempt(
      "otp \(identifier.kind.rawValue) \(identifier.canonical)",
      account: found?.subject,
      guest: guest
    )
    let code = core.codes.hashed(credential.code, for: identifier)
    let check = try await core.stored { () throws(StorageError) in
      try await core.oneTimeCodes.present(code, at: core.clock.now())
    }
    switch check {
    case .void: throw .codeVoid
    case .wrong(let attemptsLeft): throw .codeInvalid(attemptsLeft: attemptsLeft)
    case .holds: break
    }
    try await core.attemptSucceeded(counted)
    self.identifier = identifier
    self.code = code
    account = found?.subject
  }
}
