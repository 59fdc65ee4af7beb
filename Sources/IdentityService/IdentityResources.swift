import Cryptography
import GRPC
import LatchkeyModel
import Logging
import ServiceRuntime
import Storage

/// What the service is made of besides its configuration: the process gives it, or a test.
package struct IdentityResources: Sendable {
  package let storage: any IdentityStorage
  /// This instance among others; nil where it is alone.
  package let membership: Membership?
  package let passwords: PasswordHasher
  /// Takes one-time codes, and notices to owners.
  package let codeSink: any CodeSink
  package let providers: OpenIDProviders
  /// Decides about proofs of possession.
  package let proofs: DPoPVerifier
  /// A channel that carries the service credential; nil where there is no migrator: then nobody can merge.
  package let migrator: (any RPCChannel)?
  package let policies: PolicyFile
  package let surroundings: Surroundings

  package init(
    storage: any IdentityStorage,
    membership: Membership? = nil,
    passwords: PasswordHasher,
    codeSink: any CodeSink,
    providers: OpenIDProviders,
    proofs: DPoPVerifier,
    migrator: (any RPCChannel)?,
    policies: PolicyFile,
    surroundings: Surroundings
  ) {
    self.storage = storage
    self.membership = membership
    self.passwords = passwords
    self.codeSink = codeSink
    self.providers = providers
    self.proofs = proofs
    self.migrator = migrator
    self.policies = policies
    self.surroundings = surroundings
  }
}
