import Domain
import GRPC
import LatchkeyModel
import LatchkeyProtos
import ServiceRuntime

/// Answers `latchkey.identity.v1.AuthService`, one file for each method.
package struct AuthHandlers: IdentityV1.AuthService, Deciding {
  let domain: IdentityDomain
  let methods: LoginMethods
  let tokens: TokenIssuer
  let callers: CallerChecks
  let admission: SignInAdmission
  /// Nil where there is no migrator: then nobody can merge.
  let migrator: Migrator?
  let surroundings: Surroundings
}
