import Callers
import LatchkeyModel
import ServiceRuntime

/// What an installation decides about its QR sign-in.
package struct QRSettings: Sendable {
  /// When the person has to type the two digits of the initiating screen (S9).
  package enum CheckCodePolicy: String, Sendable, CaseIterable {
    case never
    /// When the two devices are not in one network.
    case onRisk
    case always
  }

  /// Where codes point.
  package var verificationBase: QRVerificationBase
  /// Numbers this instance in the session ids that it makes.
  package var instance: UInt16 = 0
  /// How long a code lives (S4).
  package var lifetime: Duration = .seconds(120)
  /// Between two plain polls, and between two that wait. Zero never throttles.
  package var interval: Duration = .seconds(5)
  package var longPollInterval: Duration = .seconds(2)
  /// Who may ask for codes (S12); nil lets any well-formed client id in.
  package var clients: Set<ClientID>?
  /// What phones call them; a client without a name is called by its id.
  package var clientNames: [ClientID: DisplayText] = [:]
  /// Those that the device grant serves without PKCE (S28).
  package var clientsWithoutPKCE: Set<ClientID> = []
  /// On which devices and networks, for clients that run on known ones only.
  package var trustedInitiators = TrustedInitiators()
  package var confirm = QRConfirmPolicy()
  /// How recent a proof must be that lets somebody in for long; nil accepts any.
  package var stepUp: StepUpPolicy?
  package var checkCode = CheckCodePolicy.onRisk
  /// What the two devices' networks, places and radio lead to (S10).
  package var risk = QRRiskPolicy()
  /// Networks further apart than this are `far`.
  package var farKilometres = 200

  /// Codes that one source may ask for (S13); nil for any number.
  package var issueRate: Rate? = Rate(600, per: .seconds(60))
  /// Codes of one source that may be on screens at a time; nil for any number.
  package var outstandingCodes: Int? = 1200
  /// Confirmations and refusals that one account may send without one of them being right (R26).
  package var decisionRate: Rate? = Rate(600, per: .seconds(60))
  /// Codes that one account may scan.
  package var scanRate: Rate? = Rate(60, per: .seconds(60))
  /// Codes that one account may scan without any of them being there for it to confirm, and of these the typed ones
  /// (S13, S15).
  package var wrongCodeRate = Rate(30, per: .seconds(60))
  package var userCodeTries = Rate(5, per: .seconds(600))
  /// Device codes that memory does not know and storage is asked about, for one source.
  package var unknownCodeRate = Rate(60, per: .seconds(60))
  /// Networks that may ask for and look up any number of codes.
  package var exempt: [NetworkRange] = []

  package init(verificationBase: QRVerificationBase, clients: Set<ClientID>?) {
    self.verificationBase = verificationBase
    self.clients = clients
  }
}
