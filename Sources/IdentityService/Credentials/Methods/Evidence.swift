import GRPC
import LatchkeyModel

/// What shows who somebody is: secrets, codes, ID tokens, and keys that answer a challenge.
struct Evidence: Surrounded {
  let secrets: SecretChecks
  let codes: OneTimeCodes
  let idTokens: IDTokenChecks
  let challenges: ChallengeBook
  /// Whether an e-mail address or phone number leads to an account only with a code.
  let codesRequired: Bool

  var surroundings: Surroundings { secrets.surroundings }

  /// Holds unless `identifier` is an address, which may be somebody else's, and the installation wants a code for it.
  func requireNoCode(for identifier: AccountIdentifier, _ field: String) throws(RPCError) {
    guard codesRequired else { return }
    switch identifier.kind {
    case .email, .phone: throw .codeRequired(field)
    case .userName, .customID, .oidc: return
    }
  }
}
