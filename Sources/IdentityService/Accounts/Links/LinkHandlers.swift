import Cryptography
import Domain
import GRPC
import LatchkeyModel
import LatchkeyProtos
import Storage

/// Answers `latchkey.identity.v1.LinkService`, one file for each method.
package struct LinkHandlers: IdentityV1.LinkService, Deciding {
  let domain: IdentityDomain
  let evidence: Evidence
  let reauthentication: Reauthentication
  let notices: NoticeCourier
  let surroundings: Surroundings

  /// The account that calls, with a token that may change what leads to it.
  func account(_ context: ServerContext) throws(RPCError) -> SubjectID {
    guard try context.requireSubject().hasScope("account") else { throw .insufficientScope }
    return try context.callerSubject()
  }

  /// Makes a change, of which the account's verified addresses may be told.
  func performTelling<Command: IdentityCommand>(_ command: Command) async throws(RPCError) -> Command.Outcome {
    let outcome = try await perform(command)
    notices.hurry()
    return outcome
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
    Base64URL.encode(OpaqueIDValue.startingAsWord(Array(SHA256Hash.hash(Array(text.utf8))[..<16])))
  }
}
