package import GRPC
internal import LatchkeyProtos
package import Logging
internal import Synchronization

/// The policies as identity has them, for a service whose instances are several: asked for twice a second, and fetched when
/// they are others.
///
/// Until identity has answered once the service is not ready. What it said last holds while it says nothing.
package final class PolicyFollower: Sendable {
  private let gates: IdentityV1.PolicyServiceClient
  private let documents: IdentityV1.AdminServiceClient
  private let policies: PolicyFile
  private let logger: Logger
  /// The version that holds; 0 before any is known.
  private let version = Atomic<Int64>(0)
  /// Answers in a row with a lower version.
  private let lower = Atomic<Int>(0)

  /// The file of `policies` changes nothing any more.
  ///
  /// - Parameter channel: carries the service credential.
  package init(identity channel: any RPCChannel, policies: PolicyFile, logger: Logger) {
    gates = IdentityV1.PolicyServiceClient(channel: channel)
    documents = IdentityV1.AdminServiceClient(channel: channel)
    self.policies = policies
    self.logger = logger
    policies.share()
  }

  package var isKnown: Bool { version.load(ordering: .acquiring) > 0 }

  /// Asks until cancelled. To be run once, by the service's lifecycle.
  package func run() async {
    var warning = PatientWarning()
    while !Task.isCancelled {
      do {
        try await look()
        warning.succeeded()
      } catch {
        if !Task.isCancelled, warning.failed() {
          logger.warning("identity does not tell which policies hold; trying again", metadata: ["cause": "\(error)"])
        }
      }
      try? await Task.sleep(for: Limits.policyFollowingInterval)
    }
  }

  /// Asks once. Instances of identity learn of a change at different times, so that an older version than the one that holds
  /// is of one that has yet to; unless all say so for long, after identity's rows were restored from before.
  package func look() async throws {
    let options = CallOptions(timeout: Limits.policyFollowingTimeout)
    let known = version.load(ordering: .acquiring)
    let answer = try await gates.getGatePolicy(
      IdentityV1.GetGatePolicyRequest(clientID: "latchkey", knownVersion: known), options: options)
    if answer.version < known { lower.add(1, ordering: .relaxed) } else { lower.store(0, ordering: .relaxed) }
    let wentBack = lower.load(ordering: .relaxed) > Limits.policyStepsBack
    guard answer.version > known || wentBack else { return }
    if answer.version <= Policies.builtIn.version {
      try policies.take(nil)
      version.store(answer.version, ordering: .releasing)
      return
    }
    let bytes = Array(
      try await documents.getDocument(
        IdentityV1.GetDocumentRequest(document: .policies), options: options
      ).json.utf8)
    let found = try Policies(parsing: bytes).version
    guard found > known || wentBack else { return }
    try policies.take(bytes)
    version.store(found, ordering: .releasing)
    logger.notice("the policies changed", metadata: ["version": "\(found)"])
  }
}
