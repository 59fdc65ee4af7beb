import Cryptography
import LatchkeyModel

/// The service's own secret of 32 bytes, from which it derives a key for each purpose. In a file of mode 0600, made at
/// the first start: whoever replaces it ends every session and voids every challenge.
package struct ServiceSecret: Sendable {
  private let secret: RedactedSecret

  package enum Failure: Error, CustomStringConvertible {
    case file(SecretFileError)
    case malformed(String)

    package var description: String {
      switch self {
      case .file(let error): error.description
      case .malformed(let path): "\(path) is not the 32 bytes that it should hold"
      }
    }
  }

  package init(path: String) throws(Failure) {
    let bytes: [UInt8]
    do {
      bytes = try SecretFile.readOrCreate(path) { SecureRandom.bytes(32) }
    } catch {
      throw .file(error)
    }
    guard bytes.count == 32 else { throw .malformed(path) }
    secret = RedactedSecret(bytes)
  }

  /// A key for one purpose. Knowing it tells nothing about the others.
  package func key(for purpose: String) -> RedactedSecret {
    RedactedSecret(HMACSHA256.authenticate(Array(purpose.utf8), key: secret.exposed))
  }
}
