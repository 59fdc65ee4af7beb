import LatchkeyModel

/// Something that whoever investigates a sign-in later wants to know (S25). Names a code by its hash, never by itself.
package struct QRAuditEvent: Sendable, Equatable {
  package enum Kind: String, Sendable, CaseIterable {
    case issued
    case scanned
    case confirmed
    case denied
    case abuseReported
    case cancelled
    case expired
    case redeemed
    /// Another account submitted a claimed code (S6).
    case scannedByAnother
    /// The device that shows the code tried to confirm it (S21).
    case sameDeviceRefused
    case wrongCheckCode
    /// The risk of confirming from there is one that the installation does not take (S10).
    case riskDenied
    /// A signature that should have come from the confirming device's key did not (S11).
    case wrongReauthProof
    case wrongVerifier
    /// Who collected could not sign with the key that the grant is for.
    case wrongDeviceProof
    /// A redeemed code was used again after its window: what it issued was revoked (S19, R30).
    case reused
  }

  package let kind: Kind
  package let at: Timestamp
  package let session: QRSessionID
  /// The first 64 bits of the reference's hash, in hexadecimal; nil where only the session's id was at hand.
  package let codeHash: String?
  package let subject: SubjectID?
  package let address: String
  package let clientID: ClientID?
}
