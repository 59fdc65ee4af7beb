/// What failed with a secret's file, said with the path so that an operator can mend it.
package enum SecretFileError: Error, Sendable, Equatable, CustomStringConvertible {
  /// A system call failed. `code` is `errno`.
  case system(operation: String, path: String, code: Int32)
  /// Others than the owner may read or change the file.
  case tooOpen(path: String)
  case tooLong(path: String)
  case notAFile(path: String)

  package var description: String {
    switch self {
    case .system(let operation, let path, let code): "cannot \(operation) \(path): \(SystemError.text(code))"
    case .tooOpen(let path): "\(path) is open to others than its owner: its mode must be 0600"
    case .tooLong(let path): "\(path) is too long for what it should hold"
    case .notAFile(let path): "\(path) is not a regular file"
    }
  }
}
