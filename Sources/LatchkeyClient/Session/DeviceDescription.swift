/// How a device describes itself when it asks for a guest.
public struct DeviceDescription: Sendable, Equatable {
  /// A name that a person recognises the device by, such as "Ada's phone".
  public var label: String
  public var platform: String
  public var osVersion: String
  public var appVersion: String
  /// A language tag (BCP 47).
  public var locale: String
  /// The device key outlived a reinstall of the app.
  public var isReinstalled: Bool

  public init(
    label: String,
    platform: String = "",
    osVersion: String = "",
    appVersion: String = "",
    locale: String = "",
    isReinstalled: Bool = false
  ) {
    self.label = label
    self.platform = platform
    self.osVersion = osVersion
    self.appVersion = appVersion
    self.locale = locale
    self.isReinstalled = isReinstalled
  }
}
