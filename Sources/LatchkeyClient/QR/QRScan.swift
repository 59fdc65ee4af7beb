/// What the phone shows before a person agrees.
public struct QRScan: Sendable, Equatable {
  /// Confirms or denies this code, for this account and session only, within `expiresIn`.
  public let confirmTicket: String
  public let initiator: QRInitiator
  /// Nil for a purpose that this version of the library does not know: deny it.
  public let purpose: QRSignInPurpose?
  public let clientID: String
  public let scope: String
  /// The initiating device's network, coarse.
  public let network: String
  public var isSameNetwork: Bool { distance == .sameNetwork }
  public let distance: QRDistance
  /// Between the two networks, coarse; nil when their places are not known.
  public let kilometres: Int?
  public let verdict: QRRiskVerdict
  /// Further reasons to be careful, by name.
  public let signals: [String]
  public let needsCheckCode: Bool
  /// The person proves who they are before they agree: they open the phone's lock, so that its key signs, or step up.
  public let needsReauthentication: Bool
  /// With ``needsReauthentication``: this phone's key will not do, because a code or a transfer let the phone in.
  public let needsStepUp: Bool
  public let expiresIn: Duration
  /// What is agreed to, for ``QRSignInPurpose/confirmAction``.
  public let action: QRAction?
}
