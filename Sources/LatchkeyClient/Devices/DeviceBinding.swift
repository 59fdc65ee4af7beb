/// How a device came to belong to the account: by a QR code that it showed.
public struct DeviceBinding: Sendable, Equatable {
  /// Milliseconds since 1970 in UTC; nil when the service does not say.
  public let boundAt: Int64?
  /// The device that the person agreed on: its name, and its key where it has one.
  public let confirmedByLabel: String
  public let confirmedByKey: String
  /// What was agreed to; the device gets no more when it signs in by its key.
  public let scope: String
}
