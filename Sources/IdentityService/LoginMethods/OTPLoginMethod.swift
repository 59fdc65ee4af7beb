import Cryptography
import GRPC
import LatchkeyModel
import LatchkeyProtos
import Storage

/// Signs in by a code that was sent to an e-mail address or phone number of the account.
struct OTPLoginMethod: LoginMethod {
  static let method = SignInMethod.otp

  private let core: IdentityCore

  init(_ core: IdentityCore) {
    self.core = core
  }

  func verify(_ credential: IdentityV1.OtpCredential, guest: SessionID?) async throws(RPCError) -> VerifiedLogin {
    let identifier = try RequestFields.identifier(credential.identifier, "otp.identifier")
    let digits = core.codePolicy.digits
    guard credential.code.utf8.count == digits, credential.code.utf8.allSatisfy({ (0x30...0x39).contains($0) }) else {
      throw .invalid("otp.code", "must be \(digits) digits")
    }
    let found = try await core.stored { () throws(StorageError) in try await core.accounts.account(for: identifier) }
    let now = core.clock.now()
    let attempt = SignInAttempt(
      identifierHash: SHA256Hash.hash(Array("otp \(identifier.kind.rawValue) \(identifier.canonical)".utf8)),
      account: found?.subject,
      guestSession: guest,
      now: now
    )
    // Beside the tries of each code: new codes must not make endless tries (R24).
    let outcome = try await core.stored { () throws(StorageError) in
      try await core.attempts.begin(attempt, under: AttemptPolicy())
    }
    if case .wait(let wait) = outcome { throw .tooManyAttempts(retryAfter: wait) }
    let code = core.codes.hashed(credential.code, for: identifier)
    switch try await core.stored({ () throws(StorageError) in try await core.oneTimeCodes.present(code, at: now) }) {
    case .void: throw .codeVoid
    case .wrong(let attemptsLeft): throw .codeInvalid(attemptsLeft: attemptsLeft)
    case .holds: break
    }
    // A code is made for every identifier, but only an account's was ever sent.
    guard let found else { throw .codeVoid }
    try await core.stored { () throws(StorageError) in try await core.attempts.succeeded(attempt) }
    return VerifiedLogin(
      method: Self.method,
      account: found.subject,
      mask: identifier.mask,
      proof: .code(account: found.subject, identifier: identifier, code: code)
    )
  }
}
