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
  public let needsReauthentication: Bool
  public let expiresIn: Duration
  /// What is agreed to, for ``QRSignInPurpose/confirmAction``.
  public let action: QRAction?
}
