/// Why an operation of this module failed.
package enum CryptographyError: Error, Sendable, Equatable, CustomStringConvertible {
  /// The bytes are no key of the kind that was asked for. The reason is safe to show.
  case invalidKey(String)
  /// OpenSSL refused an operation that valid input cannot make fail: the system's fault, such as no memory.
  case system(operation: String)

  package var description: String {
    switch self {
    case .invalidKey(let reason): "invalid key: \(reason)"
    case .system(let operation): "the cryptographic library failed in \(operation)"
    }
  }
}
