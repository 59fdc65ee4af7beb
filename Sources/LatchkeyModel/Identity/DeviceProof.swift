/// What a device signs to show that it holds its key.
///
/// The parts are separated by a zero byte, which none of them can hold, so no two different proofs have the same bytes;
/// the first part says what the signature is for, so that it cannot be used for anything else.
package enum DeviceProof {
  package static let issueGuestContext = "latchkey-device-proof-v1"

  /// ECDSA P-256 with SHA-256 is computed over these bytes.
  package static func message(client: ClientID, deviceID: DeviceID, challenge: String) -> [UInt8] {
    var message: [UInt8] = []
    message.append(contentsOf: issueGuestContext.utf8)
    message.append(0)
    message.append(contentsOf: client.description.utf8)
    message.append(0)
    message.append(contentsOf: deviceID.description.utf8)
    message.append(0)
    message.append(contentsOf: challenge.utf8)
    return message
  }
}
