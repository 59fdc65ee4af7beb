import Glibc

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
    case .system(let operation, let path, let code): "cannot \(operation) \(path): \(Self.message(code))"
    case .tooOpen(let path): "\(path) is open to others than its owner: its mode must be 0600"
    case .tooLong(let path): "\(path) is too long for what it should hold"
    case .notAFile(let path): "\(path) is not a regular file"
    }
  }

  private static func message(_ code: Int32) -> String {
    var buffer = [CChar](repeating: 0, count: 128)
    // The POSIX strerror_r writes at most `count` bytes, NUL included, into the array.
    unsafe buffer.withUnsafeMutableBufferPointer { buffer in
      guard let start = buffer.baseAddress else { return }
      _ = unsafe strerror_r(code, start, buffer.count)
    }
    return String(decoding: buffer.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
  }
}
