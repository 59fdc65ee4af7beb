/// The device that shows the code: as it describes itself, and as the service sees it. The description is a claim that
/// the confirm screen repeats; the address is what risk is judged by.
package struct QRInitiator: Sendable, Equatable {
  package var label: DisplayText?
  package var platform: DisplayText?
  package var app: DisplayText?
  /// Where the request came from, as text; empty when unknown.
  package var address: String
  /// RFC 7638 thumbprint of the device's key; nil when it named none.
  package var keyThumbprint: String?
  /// The signed-in session that asked, when it was one: such a device may not confirm its own code (S21).
  package var sessionID: SessionID?

  package init(
    label: DisplayText?,
    platform: DisplayText?,
    app: DisplayText?,
    address: String,
    keyThumbprint: String? = nil,
    sessionID: SessionID? = nil
  ) {
    self.label = label
    self.platform = platform
    self.app = app
    self.address = address
    self.keyThumbprint = keyThumbprint
    self.sessionID = sessionID
  }
}
