import JSON

/// The secrets that collect a QR sign-in: whoever holds them gets the tokens. Prints as `[redacted]`.
public struct QRTicket: Sendable, Equatable, CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
  let deviceCode: String
  let codeVerifier: String
  /// Whether the code names this device's key, so that it signs when it collects: what is granted is the key's, or the
  /// client's devices are known by their keys.
  let needsDeviceProof: Bool

  init(deviceCode: String, codeVerifier: String, needsDeviceProof: Bool = false) {
    self.deviceCode = deviceCode
    self.codeVerifier = codeVerifier
    self.needsDeviceProof = needsDeviceProof
  }

  /// Reads what ``encoded()`` wrote; nil for anything else.
  public init?(_ bytes: [UInt8]) {
    guard let json = try? JSONValue(parsing: bytes),
      let deviceCode = json["device_code"]?.string,
      let codeVerifier = json["code_verifier"]?.string
    else { return nil }
    self.init(
      deviceCode: deviceCode,
      codeVerifier: codeVerifier,
      needsDeviceProof: json["needs_device_proof"]?.bool ?? false
    )
  }

  /// For the ``SecretStore``, so that a restarted app still collects its sign-in.
  public func encoded() -> [UInt8] {
    let json: JSONValue = [
      "device_code": .string(deviceCode),
      "code_verifier": .string(codeVerifier),
      "needs_device_proof": .bool(needsDeviceProof),
    ]
    return json.encoded()
  }

  public var description: String { "[redacted]" }
  public var debugDescription: String { description }
  public var customMirror: Mirror { Mirror(self, children: []) }
}
