import LatchkeyModel
import ServiceRuntime

/// What is asked of a network that signs in, registers or looks for identifiers, before anything is looked at; and how an
/// equal request is known again.
struct SignInAdmission: Sendable {
  let signIns: CallAdmission
  let registrations: CallAdmission
  let identifierChecks: NetworkTally
  /// Keys the hashes of requests that may be asked for again.
  let replayKey: RedactedSecret

  init(
    _ configuration: IdentityConfiguration, _ challenges: ChallengeBook, _ replayKey: RedactedSecret,
    among instances: InstanceCount
  ) {
    let exempt = configuration.service[CommonKeys.exemptNetworks]
    signIns = CallAdmission(
      "authenticate", perHour: configuration.signInsPerHour, exempt: exempt, among: instances, challenges: challenges)
    registrations = CallAdmission(
      "register", perHour: configuration.registrationsPerHour, exempt: exempt, among: instances, challenges: challenges)
    identifierChecks = NetworkTally(
      Limits.identifierChecksPerMinute, per: .seconds(60), exempt: exempt, among: instances)
    self.replayKey = replayKey
  }
}
