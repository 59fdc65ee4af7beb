/// Why a password was not hashed or compared.
package enum PasswordHasherError: Error, Sendable, Equatable {
  /// Too many hashes wait already, be it for all or for this one's deadline. A later try can succeed.
  case overloaded
  /// Longer than any password may be: the caller's fault.
  case passwordTooLong
  /// The stored text is no Argon2id hash with usable parameters: the store's fault.
  case malformedHash
  /// libargon2 failed, for want of memory: the system's fault.
  case system
  /// The hasher was shut down.
  case stopped
  /// The calling task was cancelled while the password waited.
  case cancelled

  init(_ refusal: WorkerThreads.Refusal) {
    switch refusal {
    case .full, .late: self = .overloaded
    case .stopped: self = .stopped
    case .withdrawn: self = .cancelled
    }
  }
}
