/// Why a picture could not be made. All but `outOfMemory` are the caller's fault, and a retry cannot help.
package enum QRCodeError: Error, Equatable, Sendable, CustomStringConvertible {
  case emptyContent
  case contentTooLong(bytes: Int, limit: Int)
  /// A module size or quiet zone outside the module's limits.
  case layoutOutOfRange(String)
  case outOfMemory
  /// libqrencode or zlib refused what its own documentation allows.
  case library(operation: String, code: Int32)

  package var description: String {
    switch self {
    case .emptyContent: "there is nothing to encode"
    case .contentTooLong(let bytes, let limit): "the content has \(bytes) bytes; a code holds at most \(limit)"
    case .layoutOutOfRange(let what): what
    case .outOfMemory: "out of memory"
    case .library(let operation, let code): "\(operation) failed with \(code)"
    }
  }
}
