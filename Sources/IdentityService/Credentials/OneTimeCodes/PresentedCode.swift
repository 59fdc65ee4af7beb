import Callers
import Domain
import GRPC
import LatchkeyModel
import LatchkeyProtos
import Storage

/// A code that was presented and is the one that was sent: it shows that an address is the caller's. It is spent by what
/// it is presented for.
struct PresentedCode: Sendable {
  let identifier: AccountIdentifier
  let code: OneTimeCode
  /// The account that the address leads to, if any: one whose owner has shown it to be theirs before.
  let account: SubjectID?

  /// - Parameter field: where the credential stands in the request.
  init(
    _ credential: IdentityV1.OtpCredential,
    _ field: String,
    _ codes: OneTimeCodes,
    by requester: Requester,
    for purpose: CodePurpose = .signIn
  ) async throws(RPCError) {
    let identifier = try RequestFields.address(credential.identifier, "\(field).identifier")
    let digits = codes.policy.digits
    guard credential.code.utf8.count == digits, credential.code.utf8.allSatisfy({ (0x30...0x39).contains($0) }) else {
      throw .invalid("\(field).code", "must be \(digits) digits")
    }
    let handle = try RequestFields.codeHandle(credential.handle, "\(field).handle", in: codes.cell)
    let known = try await codes.look(FindAccount(for: identifier))
    let found = known?.isProven == true ? known : nil
    // Beside the tries of each code: new codes must not make endless tries (R24).
    let counted = try await codes.secrets.countAttempt(
      "otp \(identifier.kind.rawValue) \(identifier.canonical)",
      account: found?.subject,
      by: requester
    )
    var presented = codes.mint.presented(
      credential.code, for: identifier, purpose, handle: handle, account: found?.subject, by: requester,
      at: codes.clock.now())
    presented.counted = counted
    let code: OneTimeCode
    switch try await codes.look(at: presented, for: counted) {
    case .void: throw .codeVoid
    case .wrong(let attemptsLeft): throw .codeInvalid(attemptsLeft: attemptsLeft)
    case .holds(let kept): code = kept
    }
    try await codes.secrets.attemptSucceeded(counted)
    self.identifier = identifier
    self.code = code
    account = found?.subject
  }
}

extension OneTimeCodes {
  /// Looks whether the code is right, for which a try was counted: it is looked at whatever becomes of the call. Where
  /// no code could be looked at, whichever it was, it was no try.
  fileprivate func look(
    at presented: PresentCode, for counted: CountedAttempt
  ) async throws(RPCError) -> PresentCode.Outcome {
    try await stored { () async throws(StorageError) -> PresentCode.Outcome in
      do throws(StorageError) {
        return try await CallDeadline.outliving { [domain] () async throws(StorageError) in
          try await domain.perform(presented)
        }
      } catch {
        if let settle = SettleAttempt(counted, after: error) {
          await secrets.notMade { [domain] () async throws(StorageError) in try await domain.perform(settle) }
        }
        throw error
      }
    }
  }
}
