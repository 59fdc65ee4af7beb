import Cryptography
import JSON

/// The device's key and name, as the secret store keeps them.
///
/// The record is written *before* the first call, as pending: if the answer is lost or the app dies, the next start
/// asks again with the same key, and the service finds the guest that it already made.
struct DeviceRecord: Equatable {
  enum Registration: String {
    /// The service may or may not have heard of this key.
    case pending
    /// The service has made or found the guest of this key.
    case registered
  }

  static let name = "device"
  /// A key that is to take the place of the device's, until the service has said so.
  static let nextName = "device-next"

  /// Random, made at the first start; never a hardware identifier.
  var deviceID: String
  /// PKCS #8 in PEM.
  var privateKey: String
  var registration: Registration

  init(deviceID: String, privateKey: String, registration: Registration) {
    self.deviceID = deviceID
    self.privateKey = privateKey
    self.registration = registration
  }

  /// A device that nobody knows yet, with a new key.
  init(newKeyFor deviceID: String) throws(ClientError) {
    do throws(CryptographyError) {
      let pem = try P256PrivateKey().pem()
      self.init(deviceID: deviceID, privateKey: String(decoding: pem, as: UTF8.self), registration: .pending)
    } catch {
      throw .deviceKey("\(error)")
    }
  }

  /// Nil for bytes that ``encoded()`` did not write.
  init?(_ bytes: [UInt8]) {
    guard let json = try? JSONValue(parsing: bytes),
      let deviceID = json["device_id"]?.string,
      let privateKey = json["private_key"]?.string,
      let registration = Registration(rawValue: json["registration"]?.string ?? "")
    else { return nil }
    self.init(deviceID: deviceID, privateKey: privateKey, registration: registration)
  }

  func encoded() -> [UInt8] { json.encoded() }

  var json: JSONValue {
    [
      "device_id": .string(deviceID),
      "private_key": .string(privateKey),
      "registration": .string(registration.rawValue),
    ]
  }
}
