import LatchkeyProtos

/// What a person, or the app itself, signs in by.
public enum SignInCredential: Sendable {
  /// An e-mail address, phone number or user name, and the account's password.
  case password(identifier: String, password: String)
  /// An e-mail address or phone number, and the code that ``DeviceClient/sendCode(to:purpose:locale:)`` sent there.
  case code(identifier: String, code: String)
  /// A name and a secret that the app made for itself, such as two random UUIDs.
  case customSecret(id: String, secret: String)
  /// An ID token of an OpenID provider, asked for with the nonce of ``DeviceClient/idTokenNonce()``.
  case idToken(String, nonce: String)
  /// A pattern or PIN that ``DeviceClient/enrolPattern(_:password:)`` enrolled on this device.
  case pattern(String)
  /// This device's key, where a QR code bound the device to the account (``QRSignInPurpose/bindDevice``).
  case deviceKey
}
