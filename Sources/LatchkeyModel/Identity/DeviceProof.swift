/// What a device signs to show that it holds a key.
///
/// The parts are separated by a zero byte, which none of them can hold, so no two different proofs have the same bytes;
/// the first part says what the signature is for, so that it cannot be used for anything else.
package enum DeviceProof {
  package static let issueGuestContext = "latchkey-device-proof-v1"

  /// The new device of a transfer: its last part is the code.
  package static let transferContext = "latchkey-transfer-proof-v1"
  /// The old key's word for the new one: its last part is the new key's thumbprint.
  package static let rotationContext = "latchkey-rotate-key-v1"
  package static let rotatedContext = "latchkey-rotated-key-v1"

  /// What a signature by a key that unlocks an account is for.
  package enum UnlockPurpose: String, Sendable, CaseIterable {
    case unlock = "latchkey-unlock-v1"
    case pattern = "latchkey-pattern-v1"
    case enrolUnlock = "latchkey-enrol-unlock-v1"
    case enrolPattern = "latchkey-enrol-pattern-v1"
  }

  /// ECDSA P-256 with SHA-256 is computed over these bytes.
  ///
  /// - Parameter counter: 0 for an app that counts nothing; then nothing is said of it.
  package static func message(
    client: ClientID, deviceID: DeviceID, challenge: String, counter: Int64 = 0
  ) -> [UInt8] {
    let parts = [client.description, deviceID.description, challenge]
    return message(issueGuestContext, counter == 0 ? parts : parts + ["\(counter)"])
  }

  /// The same for a key that unlocks an account.
  package static func message(_ purpose: UnlockPurpose, client: ClientID, challenge: String) -> [UInt8] {
    message(purpose.rawValue, [client.description, challenge])
  }

  package static func message(_ context: String, _ parts: [String]) -> [UInt8] {
    var message = Array(context.utf8)
    for part in parts {
      message.append(0)
      message.append(contentsOf: part.utf8)
    }
    return message
  }
}
