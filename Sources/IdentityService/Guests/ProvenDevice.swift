import Cryptography
import GRPC
import LatchkeyModel
import LatchkeyProtos

/// A device that described itself and showed that it holds its key, with a challenge that is not yet spent.
struct ProvenDevice {
  let device: DeviceRegistration
  let challenge: ChallengeBook.Challenge

  /// Checks what is cheap first; the signature, which costs most, last.
  ///
  /// - Parameters:
  ///   - challengeKey: the thumbprint of the key that the challenge is for; nil for the device's own.
  ///   - message: what the device had to sign.
  init(
    _ described: IdentityV1.Device?,
    client: ClientID,
    challenge text: String,
    solution: [UInt8],
    proof: [UInt8],
    _ challenges: ChallengeBook,
    challengeKey: String? = nil,
    at now: LatchkeyModel.Timestamp,
    message: (DeviceID) -> [UInt8]
  ) throws(RPCError) {
    guard let described else { throw .invalid("device", "is missing") }
    let deviceID = try RequestFields.deviceID(described.deviceID, "device.device_id")
    let label = try RequestFields.displayText(described.label, "device.label")
    let platform = try RequestFields.displayText(described.platform, "device.platform")
    let osVersion = try RequestFields.displayText(described.osVersion, "device.os_version")
    let appVersion = try RequestFields.displayText(described.appVersion, "device.app_version")
    guard solution.count <= Limits.powSolutionBytes else {
      throw .invalid("pow_solution", "must be at most \(Limits.powSolutionBytes) bytes")
    }
    guard !text.isEmpty else { throw .invalid("challenge", "is missing") }
    guard proof.count == 64 else { throw .invalid("proof", "must be 64 bytes, r then s") }
    let key = try RequestFields.publicKey(described.publicKey, "device.public_key")
    let thumbprint = key.thumbprint
    guard let challenge = challenges.recognise(text, client: client, keyThumbprint: challengeKey ?? thumbprint, at: now)
    else {
      throw .challengeInvalid
    }
    guard ProofOfWork.holds(solution, for: challenge) else { throw .workRequired(bits: challenge.workBits) }
    guard key.verify(signature: proof, message: message(deviceID)) else { throw .proofInvalid }
    self.challenge = challenge
    device = DeviceRegistration(
      keyThumbprint: thumbprint,
      publicKeyX: key.x,
      publicKeyY: key.y,
      deviceID: deviceID,
      label: label,
      platform: platform,
      osVersion: osVersion,
      appVersion: appVersion,
      isReinstalled: described.reinstalled
    )
  }
}
