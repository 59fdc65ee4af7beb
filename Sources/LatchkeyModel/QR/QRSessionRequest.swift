/// What the initiating device asked for; fixed from issue to the end.
package struct QRSessionRequest: Sendable, Equatable {
  package var purpose: QRPurpose
  package var clientID: ClientID
  package var scope: Scope
  package var challenge: PKCEChallenge
  package var initiator: QRInitiator
  /// The public key that issued tokens are bound to: x and y, 32 bytes each; nil for bearer tokens.
  package var deviceKey: [UInt8]?
  /// What is agreed to, where the purpose is an action.
  package var action: QRAction?

  package init(
    purpose: QRPurpose,
    clientID: ClientID,
    scope: Scope,
    challenge: PKCEChallenge,
    initiator: QRInitiator,
    deviceKey: [UInt8]? = nil,
    action: QRAction? = nil
  ) {
    self.purpose = purpose
    self.clientID = clientID
    self.scope = scope
    self.challenge = challenge
    self.initiator = initiator
    self.deviceKey = deviceKey
    self.action = action
  }
}
