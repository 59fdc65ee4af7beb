/// The device that shows a code, as it describes itself on the phone's confirm page.
public struct QRInitiator: Sendable, Equatable {
  public var label: String
  public var platform: String
  public var app: String

  public init(label: String, platform: String = "", app: String = "") {
    self.label = label
    self.platform = platform
    self.app = app
  }
}
