import Cryptography
import Domain
import GRPC
import LatchkeyModel
import LatchkeyProtos
import ServiceRuntime

/// Answers `latchkey.identity.v1.TransferService`, one file for each method.
package struct TransferHandlers: IdentityV1.TransferService, Deciding {
  let transferTries: NetworkTally
  let domain: IdentityDomain
  let challenges: ChallengeBook
  let tokens: TokenIssuer
  let callers: CallerChecks
  let surroundings: Surroundings

  /// The hash by which a code or a QR code's content is looked up.
  func hash(code: String) throws(RPCError) -> [UInt8] {
    guard let code = TransferCode(typed: code) else {
      throw .invalid("code", "must be the \(TransferCode.length) letters of a transfer's code")
    }
    try cell.requireSame(code.cell)
    return SHA256Hash.hash(code.bytes)
  }

  func hash(payload: String) throws(RPCError) -> [UInt8] {
    guard let payload = TransferPayload(reading: payload, issuer: tokens.issuer) else {
      throw .invalid("qr_payload", "is no transfer's code of this installation")
    }
    let reference = payload.reference
    try cell.requireSame(reference.cell)
    // Offers are found by either hash: a typed code in a reference's place would be a guess that nobody counts. A
    // reference that reads as one is drawn with a chance of 2e-18.
    let typed = TransferCode(typed: String(decoding: reference.bytes, as: UTF8.self))
    if let typed, typed.bytes == reference.bytes { throw .transferNotFound }
    return SHA256Hash.hash(reference.bytes)
  }

  /// Counts somebody who types a code: those who are not signed in may only guess so often. A QR code's content cannot
  /// be guessed and is not counted: nobody else of the same network keeps it from being presented.
  func countTry(_ context: ServerContext) throws(RPCError) {
    try transferTries.countCode(from: context.peer, at: clock.now())
  }

  /// The code that was typed is one.
  func giveBackTry(_ context: ServerContext) {
    transferTries.refund(to: context.peer, at: clock.now())
  }
}

extension RPCError {
  static var transferNotFound: RPCError {
    RPCError(
      .notFound,
      "there is no such code: it expired, was used or cancelled, or never was",
      reason: "TRANSFER_NOT_FOUND"
    )
  }
}

extension IdentityV1.OldDevice {
  init(_ consent: OldDeviceConsent) {
    switch consent {
    case .either: self = .unspecified
    case .kept: self = .kept
    case .revoked: self = .revoked
    }
  }

  func consent() throws(RPCError) -> OldDeviceConsent {
    switch self {
    case .unspecified: .either
    case .kept: .kept
    case .revoked: .revoked
    case .unrecognized: throw .invalid("old_device", "must be KEPT or REVOKED, or left out")
    }
  }
}
