import Cryptography

/// Why the signing keys cannot be used. An operator's to mend.
package enum SigningKeyError: Error, Sendable, CustomStringConvertible {
  case file(SecretFileError)
  /// The file holds no signing key of ours, or none could be made.
  case key(path: String)
  case tooMany(String)

  package var description: String {
    switch self {
    case .file(let error): error.description
    case .key(let path): "\(path) holds no signing key"
    case .tooMany(let path): "\(path) holds more than \(Limits.signingKeys) signing keys"
    }
  }
}
