/// What a screen asks a code for.
public struct QRCodeRequest: Sendable, Equatable {
  public var initiator: QRInitiator
  public var purpose: QRSignInPurpose
  /// Words separated by spaces; empty asks for the usual ones.
  public var scope: String
  /// What is to be agreed to, for ``QRSignInPurpose/confirmAction``.
  public var action: QRAction?

  public init(
    initiator: QRInitiator,
    purpose: QRSignInPurpose = .login,
    scope: String = "",
    action: QRAction? = nil
  ) {
    self.initiator = initiator
    self.purpose = purpose
    self.scope = scope
    self.action = action
  }
}
