import Cryptography
import Glibc

/// A new file that only its owner can read, written from its beginning to its end.
final class PrivateFile {
  private let file: Int32
  private let path: String
  private var buffer: [UInt8] = []
  private static let capacity = 256 * 1024

  init(_ path: String) throws(CommandFailure) {
    self.path = path
    // The path lives as a NUL-terminated copy for the length of the call.
    file = unsafe open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0o600)
    guard file >= 0 else { throw CommandFailure(.file, "cannot write \(path): \(SystemError.text(errno))") }
  }

  deinit {
    close(file)
  }

  func write(_ bytes: [UInt8]) throws(CommandFailure) {
    buffer += bytes
    if buffer.count >= Self.capacity { try flush() }
  }

  /// Returns once all of it is on the disk.
  func finish() throws(CommandFailure) {
    try flush()
    guard fsync(file) == 0 else { throw CommandFailure(.file, "cannot write \(path): \(SystemError.text(errno))") }
  }

  private func flush() throws(CommandFailure) {
    var written = 0
    while written < buffer.count {
      let count = unsafe buffer.withUnsafeBytes { bytes in
        // The source range lies within the array: `written` is below its count.
        unsafe Glibc.write(file, bytes.baseAddress?.advanced(by: written), bytes.count - written)
      }
      if count < 0 {
        if errno == EINTR { continue }
        throw CommandFailure(.file, "cannot write \(path): \(SystemError.text(errno))")
      }
      written += count
    }
    buffer.removeAll(keepingCapacity: true)
  }
}
