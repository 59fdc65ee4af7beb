/// Why bytes could not be compressed or expanded.
package enum CompressionError: Error, Equatable, Sendable {
  /// The bytes are not what their format says: the sender's fault.
  case corrupt
  /// The bytes end within a member: the sender's fault.
  case truncated
  /// They stand for more than the caller takes.
  case overLimit
  case outOfMemory
  /// zlib refused what its own documentation allows.
  case library(operation: String, code: Int32)
}
