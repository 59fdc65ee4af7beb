import Cryptography
import GRPC
import Storage

/// Why the signing keys cannot be used. An operator's to mend.
package enum SigningKeyError: Error, Sendable, CustomStringConvertible {
  case file(SecretFileError)
  /// The file holds no signing key of ours.
  case key(path: String)
  case unmade
  case tooMany
  case storage(StorageError)
  /// The row of this key is not what this secret sealed.
  case sealed(String)
  case otherServer
  /// They could not be read for too long.
  case unknown
  case cryptography(CryptographyError)

  package var description: String {
    switch self {
    case .file(let error): error.description
    case .key(let path): "\(path) holds no signing key"
    case .unmade: "the cryptographic library made no key"
    case .tooMany: "there are \(Limits.signingKeys) signing keys already"
    case .storage(let error): error.description
    case .sealed(let id):
      "the row of signing key \(id) was not sealed with this identity-secret: another instance has another one, or it was changed"
    case .otherServer: "a server answered that did not take the last sign of life"
    case .unknown: "which keys sign is not known"
    case .cryptography(let error): error.description
    }
  }
}

extension RPCError {
  /// Of a signature that was not made.
  init(signing error: SigningKeyError, _ what: String) {
    if case .unknown = error {
      self = .signingKeysUnknown
    } else {
      self.init(.internal, "\(what) could not be signed")
    }
  }

  static var signingKeysUnknown: RPCError {
    RPCError(.unavailable, "which keys sign is not known for a moment", retryAfter: .seconds(1))
  }
}
