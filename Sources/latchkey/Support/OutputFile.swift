import Cryptography
import Glibc

/// Writes a file, replacing what was there.
enum OutputFile {
  static func write(_ bytes: [UInt8], to path: String) throws(CommandFailure) {
    // The path lives as a NUL-terminated copy for the length of the call.
    let file = unsafe open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0o644)
    guard file >= 0 else { throw CommandFailure(.file, "cannot write \(path): \(SystemError.text(errno))") }
    defer { close(file) }
    var written = 0
    while written < bytes.count {
      let count = unsafe bytes.withUnsafeBytes { buffer in
        // The source range lies within the array: `written` is below its count.
        unsafe Glibc.write(file, buffer.baseAddress?.advanced(by: written), buffer.count - written)
      }
      if count < 0 {
        if errno == EINTR { continue }
        throw CommandFailure(.file, "cannot write \(path): \(SystemError.text(errno))")
      }
      written += count
    }
  }
}
