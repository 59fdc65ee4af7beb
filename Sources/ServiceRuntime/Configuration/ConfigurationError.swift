/// Why a service cannot start with the configuration it was given: one line for the operator.
package enum ConfigurationError: Error, Sendable, Equatable, CustomStringConvertible {
  /// A key that nobody reads, most likely misspelt. `written` is how it stood in `source`.
  case unknownKey(written: String, source: ConfigurationSource, nearest: String?)
  /// A value that the key cannot have. The value itself is not repeated: it may be a secret in the wrong place.
  case invalidValue(key: String, reason: String)
  case missingValue(written: String)
  case unexpectedArgument(String)
  /// The file cannot be read or is no JSON.
  case file(path: String, reason: String)
  /// Two keys that do not go together.
  case conflict(String)

  package var description: String {
    switch self {
    case .unknownKey(let written, let source, let nearest):
      "unknown key \(written) in \(source.rawValue)" + (nearest.map { "; did you mean \($0)?" } ?? "")
    case .invalidValue(let key, let reason): "\(key): \(reason)"
    case .missingValue(let written): "\(written) needs a value"
    case .unexpectedArgument(let argument): "unexpected argument \(argument)"
    case .file(let path, let reason): "\(path): \(reason)"
    case .conflict(let reason): reason
    }
  }
}
