internal import Cryptography
package import GRPC
internal import LatchkeyModel

/// The secret that the services of one installation share, and prove themselves to each other with.
///
/// It prints as `[redacted]`.
package struct ServiceToken: Sendable, CustomStringConvertible, CustomDebugStringConvertible {
  /// Tells a service's credential from an access token at a glance.
  static let prefix = "lks_"

  private let text: String
  private let hash: [UInt8]

  /// Reads the file, or makes it when no service has yet.
  ///
  /// Errors: ``ConfigurationError/file(path:reason:)`` for a file that cannot be read, that others may read, or that
  /// holds something else.
  package static func load(_ path: String) throws(ConfigurationError) -> ServiceToken {
    let bytes: [UInt8]
    do throws(SecretFileError) {
      bytes = try SecretFile.readOrCreate(path) { () throws(SecretFileError) in
        Array("\(prefix)\(Base64URL.encode(SecureRandom.bytes(32)))\n".utf8)
      }
    } catch {
      throw .file(path: path, reason: error.description)
    }
    let line = bytes.last == 0x0A ? bytes.dropLast() : bytes[...]
    guard let token = ServiceToken(String(decoding: line, as: UTF8.self)) else {
      throw .file(path: path, reason: "holds no service token: \(prefix) and 43 characters of base64url")
    }
    return token
  }

  /// Nil for anything but the prefix and 256 bits.
  package init?(_ text: String) {
    guard text.hasPrefix(Self.prefix), let secret = Base64URL.decode(text.dropFirst(Self.prefix.count)),
      secret.count == 32
    else { return nil }
    self.text = text
    hash = SHA256Hash.hash(Array(text.utf8))
  }

  /// Compares hashes in constant time: neither the length nor a common beginning shows.
  func matches(_ credential: String) -> Bool {
    ConstantTime.equals(SHA256Hash.hash(Array(credential.utf8)), hash)
  }

  /// A key for one purpose, the same for every service of the installation.
  func key(for purpose: String) -> [UInt8] {
    HMACSHA256.authenticate(Array(purpose.utf8), key: Array(text.utf8))
  }

  /// What a call to another service carries.
  package var metadata: Metadata { ["authorization": "Bearer \(text)"] }

  package var description: String { "[redacted]" }
  package var debugDescription: String { description }
}
