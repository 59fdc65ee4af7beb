import Cryptography
import Domain
import GRPC
import LatchkeyModel
import LatchkeyProtos
import Storage

extension KeyReplacement {
  /// Checks that both keys signed: the old one for the new one, and the new one for itself.
  init(
    client: ClientID,
    oldKey: CommonV1.EcPublicJwk?,
    device described: IdentityV1.Device?,
    challenge text: String,
    solution: [UInt8],
    oldProof: [UInt8],
    newProof: [UInt8],
    _ challenges: ChallengeBook,
    address: String,
    at now: LatchkeyModel.Timestamp
  ) throws(RPCError) {
    let old = try RequestFields.publicKey(oldKey, "old_key")
    let new = try RequestFields.publicKey(described?.publicKey, "device.public_key")
    let (oldName, newName) = (old.thumbprint, new.thumbprint)
    guard oldName != newName else { throw .invalid("device.public_key", "must be another key than old_key") }
    guard oldProof.count == 64 else { throw .invalid("old_proof", "must be 64 bytes, r then s") }
    let proven = try ProvenDevice(
      described, client: client, challenge: text, solution: solution, proof: newProof, challenges,
      challengeKey: oldName, at: now
    ) { deviceID in
      DeviceProof.message(DeviceProof.rotatedContext, [client.description, deviceID.description, text, oldName])
    }
    let word = DeviceProof.message(
      DeviceProof.rotationContext, [client.description, proven.device.deviceID.description, text, newName])
    guard old.verify(signature: oldProof, message: word) else { throw .proofInvalid }
    self.init(
      oldKey: oldName,
      device: proven.device,
      challenge: UsedChallenge(hash: proven.challenge.hash, expiry: proven.challenge.expiry),
      address: address,
      now: now
    )
  }
}
