import Cryptography
import LatchkeyModel

/// How many proofs this device has signed, as the secret store keeps it.
///
/// The service takes each number once: a copy of this device, restored from a backup, say, signs with numbers that were
/// used, and both are told (`DEVICE_CLONED`). Therefore a number is kept before it is signed with, so that a crash skips
/// one rather than use it twice; and each by itself, not a block of them in advance, since a block would hide a copy for
/// as long as it lasts, and a device that starts as a guest writes more than that anyway. It goes on over a new key.
enum ProofCount {
  static let name = "proof-count"

  /// The number for the next proof.
  static func next(in secrets: any SecretStore) throws(ClientError) -> Int64 {
    var next: Int64?
    do throws(SecretStoreError) {
      try secrets.update(name) { kept throws(SecretStoreError) in
        next = try number(kept)
        return Array("\(next ?? 1)".utf8)
      }
    } catch {
      throw .secretStore(error)
    }
    guard let next else { throw .unreadableSecret(name: name) }
    return next
  }

  private static func number(_ kept: [UInt8]?) throws(SecretStoreError) -> Int64 {
    guard let kept else { return 1 }
    guard let count = Int64(String(decoding: kept, as: UTF8.self)), (1..<Int64.max).contains(count) else {
      throw SecretStoreError(.read, name, reason: "it is no number that this library wrote")
    }
    return count + 1
  }
}
