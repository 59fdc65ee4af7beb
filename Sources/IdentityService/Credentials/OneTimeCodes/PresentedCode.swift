import Callers
import Domain
import GRPC
import LatchkeyModel
import LatchkeyProtos
import Storage

/// A code that was presented and is the one that was sent: it shows that an address is the caller's. It is spent by what
/// it is presented for, and its try is settled then: see ``SecretChecks/settling(_:_:)``.
struct PresentedCode: Sendable {
  let identifier: AccountIdentifier
  let code: OneTimeCode
  /// The account that the address leads to, if any: one whose owner has shown it to be theirs before.
  let account: SubjectID?
  /// The try that was counted for it.
  let counted: CountedAttempt

  /// - Parameters:
  ///   - field: where the credential stands in the request.
  ///   - peer: who presents it, where the call is not counted for its network otherwise. One that holds does not count.
  ///   - missed: keeps the try of a code that is not right.
  init(
    _ credential: IdentityV1.OtpCredential,
    _ field: String,
    _ codes: OneTimeCodes,
    by requester: Requester,
    for purpose: CodePurpose = .signIn,
    from peer: Peer? = nil,
    noting missed: MissedTry? = nil
  ) async throws(RPCError) {
    let identifier = try RequestFields.address(credential.identifier, "\(field).identifier")
    let digits = codes.policy.digits
    guard credential.code.utf8.count == digits, credential.code.utf8.allSatisfy({ (0x30...0x39).contains($0) }) else {
      throw .invalid("\(field).code", "must be \(digits) digits")
    }
    let handle = try RequestFields.codeHandle(credential.handle, "\(field).handle", in: codes.cell)
    var countedFrom: Peer?
    if let peer, try await codes.count(handle, of: identifier, purpose, from: peer) { countedFrom = peer }
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
    case .void:
      missed?.note(counted)
      throw .codeVoid
    case .wrong(let attemptsLeft):
      missed?.note(counted)
      throw .codeInvalid(attemptsLeft: attemptsLeft)
    case .holds(let kept): code = kept
    }
    if let countedFrom { codes.tally(for: purpose).refund(to: countedFrom, at: codes.clock.now()) }
    self.identifier = identifier
    self.code = code
    account = found?.subject
    self.counted = counted
  }
}

extension OneTimeCodes {
  /// Counts a code for the network that presents it, before anything is written for it. One whose handle is on record
  /// is not counted: a handle cannot be guessed, and the code has tries of its own. Returns whether it was counted.
  fileprivate func count(
    _ handle: String, of identifier: AccountIdentifier, _ purpose: CodePurpose, from peer: Peer
  ) async throws(RPCError) -> Bool {
    let now = clock.now()
    if let find = mint.find(handle: handle, of: identifier, purpose, at: now), try await perform(find) { return false }
    try tally(for: purpose).countCode(from: peer, at: now)
    return true
  }

  fileprivate func tally(for purpose: CodePurpose) -> NetworkTally {
    switch purpose {
    case .recovery: recoverers
    case .signIn: presenters
    }
  }

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
