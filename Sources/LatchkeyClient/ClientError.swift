import GRPC

/// Why an operation of the client library did not succeed.
public enum ClientError: Error, Sendable, Equatable {
  /// The service answered with an error, or could not be reached.
  case call(CallFailure)
  /// The secret store could not tell or keep. Nothing was signed up or thrown away because of it.
  case secretStore(SecretStoreError)
  /// A secret is there but is not what this library wrote.
  case unreadableSecret(name: String)
  /// Nobody is signed in on this device, not even a guest.
  case signedOut
  /// The service ended this session; its credential is forgotten. `reason` is the service's, such as `SESSION_REVOKED`.
  case sessionEnded(reason: String)
  /// Somebody else signed in on this device while the call was under way. It was not repeated in their name, and their
  /// session stays.
  case overtaken
  /// The scanned code is not a sign-in code of the service that this app belongs to.
  case foreignCode
  /// The service answered with success but left out what the answer must hold.
  case incompleteAnswer(String)
  /// What is to be kept is longer than what can be read back.
  case tooLong(field: String, limit: Int)
  /// The certificate authorities of the configuration cannot be used.
  case unusableAuthorities(String)
  /// The key pair could not be made or read.
  case deviceKey(String)

  /// True when the same operation may succeed later, unchanged.
  public var isRetryable: Bool {
    switch self {
    case .call(let failure): failure.isRetryable
    case .secretStore: true
    default: false
    }
  }
}

extension ClientError {
  init(_ error: RPCError) {
    self = .call(CallFailure(error))
  }
}
